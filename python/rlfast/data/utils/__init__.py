"""Other paths to converters, and the segment tree."""

from rlfast.utils.runtime.extras import import_modules_on_access

import_modules_on_access(__name__)
