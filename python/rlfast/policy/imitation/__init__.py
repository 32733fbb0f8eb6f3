"""Algorithms that learn from fixed data, or from what an expert did: one in each file."""

from rlfast.utils.runtime.extras import import_modules_on_access

import_modules_on_access(__name__)
