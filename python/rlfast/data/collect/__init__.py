"""The parts of the collectors, which are public as :class:`rlfast.data.Collector` and its relatives."""
