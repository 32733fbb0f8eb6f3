"""What a process depends on: processor cores, optional libraries, and random streams."""
