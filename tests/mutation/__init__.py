"""A mutation run over the package, and the mutants that may live."""
