collect_ignore_glob = ["*/*.py"]  # scripts, which test_corpus.py runs
