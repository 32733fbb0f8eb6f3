"""Calls with impossible amounts, in child processes that they may kill."""
