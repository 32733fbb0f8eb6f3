import weakref

from bench.peers.by_hand import replay_of
from torch import nn


class Graph:
    replays = 0

    def replay(self):
        self.replays += 1


def test_a_replay_keeps_the_networks_that_its_graph_writes_to():
    graph, network = Graph(), nn.Linear(1, 1)
    kept, replay = weakref.ref(network), replay_of(graph, network)
    del network
    assert kept() is not None
    replay()
    assert graph.replays == 1
