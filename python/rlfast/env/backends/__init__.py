"""What runs the environments of a vector environment."""
