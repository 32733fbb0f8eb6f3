"""Hidden states of recurrent networks: those that were stored, and samples of sequences."""
