"""Datasets in files: transitions are read from one format and written to another, a part at a time."""
