"""What a collector is made of."""
