"""The parts of the collectors, which are public as :class:`rlfast.data.Collector` and its relatives."""

from rlfast.utils.runtime.extras import needed_by

with needed_by("rlfast.data.Collector"):
    import gymnasium  # noqa: F401
    import torch  # noqa: F401
