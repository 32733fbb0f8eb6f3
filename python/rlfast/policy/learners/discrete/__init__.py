"""Templates of learning with discrete actions."""
