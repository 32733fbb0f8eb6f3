"""Experiments that are declared by builders: Tianshou's high-level interface, over :mod:`rlfast.experiment`."""

from rlfast.utils.runtime.extras import import_modules_on_access, needed_by

with needed_by("rlfast.highlevel"):
    import gymnasium  # noqa: F401
    import torch  # noqa: F401

import_modules_on_access(__name__)
