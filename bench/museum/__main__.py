import sys

from bench.museum.run import main

sys.exit(main())
