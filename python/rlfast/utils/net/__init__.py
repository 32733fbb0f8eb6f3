"""Networks with the interface that policies call: ``net(obs, state=None, info={}) -> (output, state)``."""

from rlfast.utils.runtime.extras import needed_by

with needed_by("rlfast.utils.net"):
    import torch as torch
