"""Templates of learning, which algorithms inherit from. They contain no algorithm."""
