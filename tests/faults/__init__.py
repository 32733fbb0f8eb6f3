"""Tests with damaged files, full disks, little memory, impossible amounts, threads, forks and killed processes."""
