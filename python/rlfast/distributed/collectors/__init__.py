"""Collectors in several actors."""
