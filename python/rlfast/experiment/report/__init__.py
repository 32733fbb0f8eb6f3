"""What runs show: learning curves, of one run and over seeds."""
