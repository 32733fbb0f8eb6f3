"""Experiments that are declared by builders: Tianshou's high-level interface, over :mod:`rlfast.experiment`."""
