"""Runs that commands start, in processes, and what they report."""
