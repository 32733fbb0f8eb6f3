"""Learners in several processes, and the trainers of runs with actors."""
