"""Rows and columns below the buffers: the engine, and beside it what only Python can hold."""
