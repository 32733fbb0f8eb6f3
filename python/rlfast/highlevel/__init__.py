"""The parts of Tianshou's high-level interface that scripts use on their own: loggers by name."""
