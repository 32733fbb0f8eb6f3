"""The settings of algorithms, and factories of what depends on an environment."""

from rlfast.utils.runtime.extras import import_modules_on_access

import_modules_on_access(__name__)
