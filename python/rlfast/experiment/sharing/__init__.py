"""Policies of runs for others: in folders and on the Hugging Face hub."""
