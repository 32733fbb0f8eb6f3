"""The settings of algorithms, and factories of what depends on an environment."""
