"""Where actors run: in Ray, or in this process."""
