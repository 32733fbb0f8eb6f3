"""Learning curves of one run, and over the seeds of several runs."""
