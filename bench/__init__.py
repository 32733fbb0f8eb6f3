"""Benchmarks of rlfast and of other libraries; see README.md."""
