"""The spaces of several environments, and stacks of their elements."""
