"""Calls with amounts that none can have, in children that may die of them."""
