"""Benchmarks of rlfast beside its peers; see README.md."""
