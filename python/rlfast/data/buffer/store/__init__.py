"""The storage of buffers: the engine, and columns of Python objects."""
