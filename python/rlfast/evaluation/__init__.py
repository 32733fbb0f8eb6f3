"""Several seeds: launchers of experiments, and measures over runs with intervals (Agarwal et al., arXiv:2108.13264)."""
