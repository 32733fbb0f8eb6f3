"""Several agents in one environment."""

from rlfast.utils.runtime.extras import import_modules_on_access

import_modules_on_access(__name__)
