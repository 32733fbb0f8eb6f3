"""A replay buffer in memory that several processes share."""
