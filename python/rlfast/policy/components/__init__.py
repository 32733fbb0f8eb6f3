"""What policies and the templates of learning are made of."""
