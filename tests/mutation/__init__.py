"""Mutation testing of the package, and the mutants that may survive."""
