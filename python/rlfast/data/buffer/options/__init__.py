"""The options of buffers: how rows are drawn, expanded and relabelled, and others."""
