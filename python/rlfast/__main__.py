"""``python -m rlfast``."""

import sys

from rlfast.cli import main

if __name__ == "__main__":
    sys.exit(main())
