"""What buffers can be asked for: how rows are drawn, expanded and relabelled, and the other options."""
