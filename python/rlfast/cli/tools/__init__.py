"""Commands about a machine and an environment."""
