"""One driver per library; each is loaded by ``bench.peers.worker`` in that library's own interpreter."""
