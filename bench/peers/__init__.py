"""Drivers, one for each library, which ``bench.peers.worker`` loads in that library's interpreter."""
