"""The replay buffer in several actors."""
