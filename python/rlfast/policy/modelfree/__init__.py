"""Algorithms that learn without a model of the environment, one a file."""

from rlfast.utils.runtime.extras import import_modules_on_access

import_modules_on_access(__name__)
