"""What scripts for Tianshou take from its high-level interface without building an experiment: loggers by name."""
