"""The museum: historic bugs of reinforcement-learning libraries, as cases that run against rlfast and its peers.

``cases`` holds the data: what goes in, what is right, and the public issue. ``operations`` runs a case against the
adapter of a library; ``adapters`` calls each library's public interface, as its users do. ``worker`` runs in the
library's own interpreter, one process a case. ``judge`` compares, ``run`` starts the workers and writes
``results.json``, and ``page`` makes ``docs/museum.md`` from it.
"""
