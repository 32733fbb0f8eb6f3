"""Networks with the interface that policies call: ``net(obs, state=None, info={}) -> (output, state)``."""

from rlfast.utils.runtime.extras import import_modules_on_access, needed_by

with needed_by("rlfast.utils.net"):
    import torch as torch

import_modules_on_access(__name__)
