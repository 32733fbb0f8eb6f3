"""Bugs that users of other libraries met, one named test or more for each."""
