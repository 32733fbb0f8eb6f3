"""Several agents in one environment."""
