"""Checks of arguments and settings."""
