"""Random programs that run on the fast code and on the slow models at once."""
