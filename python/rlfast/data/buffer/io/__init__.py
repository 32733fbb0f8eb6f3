"""Buffers in files: snapshots, HDF5 files in Tianshou's layout, and datasets of Minari."""
