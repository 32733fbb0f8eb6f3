"""Templates of learning with continuous actions."""
