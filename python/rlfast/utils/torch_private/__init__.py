"""All that uses names of PyTorch that are not public.

Each module says what it buys and which test falls when PyTorch changes. ``RLFAST_TORCH_PRIVATE=0`` in the environment
switches off what has a public equivalent, which is slower.
"""

import os

ENABLED = os.environ.get("RLFAST_TORCH_PRIVATE", "1") != "0"
"""Whether the quicker ways are taken."""
