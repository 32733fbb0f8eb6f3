"""What is done with a library: each function takes an adapter and the data of a case, and returns plain data."""

from bench.museum.operations.collecting import *  # noqa: F403
from bench.museum.operations.environments import *  # noqa: F403
from bench.museum.operations.learning import *  # noqa: F403
from bench.museum.operations.priorities import *  # noqa: F403
from bench.museum.operations.replay import *  # noqa: F403
from bench.museum.operations.returns import *  # noqa: F403
