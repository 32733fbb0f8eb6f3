"""The simulation of docs/scaling.md gives what can be computed by hand."""

from dataclasses import replace

import pytest
from bench.scaling import COSTS, LAYOUTS, Costs, Layout, Simulation, show, tables

FREE = Costs(step=0, row_bytes=0, insert=0, sample=0, sampled_bytes=0, take=0, update=0, weights_bytes=0, message=0)
ALONE = Layout(1, 1, batch_size=32, updates_per_step=0.1, learning=False, latency=0.0)


def rates(costs, layout, seconds=20.0):
    return Simulation(costs, layout).run(seconds).rates


def test_one_collector_takes_the_sum_of_its_costs():
    costs = replace(FREE, step=1e-3, row_bytes=1e6, insert=2e-4, message=5e-4)
    layout = replace(ALONE, latency=0.01, link=1e9)
    period = 64e-3 + 2 * 5e-4 + 2 * 64e6 / 1e9 + 0.01 + 64 * 2e-4 + 5e-4 + 2 * 0.01 + 5e-4
    assert rates(costs, layout, 200.0)[0] == pytest.approx(64 / period, rel=0.01)


def test_collectors_add_up_until_a_shard_is_busy():
    costs = replace(FREE, step=1e-3, insert=1e-4)
    assert rates(costs, replace(ALONE, collectors=4))[0] == pytest.approx(4 / 1.1e-3, rel=0.02)
    for shards in (1, 2):
        simulation = Simulation(costs, replace(ALONE, collectors=40, shards=shards)).run(20.0)
        assert simulation.rates[0] == pytest.approx(shards / 1e-4, rel=0.02)
        assert simulation.load()["shard"] == pytest.approx(1.0, abs=0.01)


def test_a_link_carries_its_bytes():
    simulation = Simulation(replace(FREE, step=1e-6, row_bytes=1e4), replace(ALONE, collectors=16, link=1e7)).run(20.0)
    assert simulation.rates[0] == pytest.approx(1000, rel=0.05)
    assert simulation.load()["shard's link in"] == pytest.approx(1.0, abs=0.01)


def test_shared_cores_are_a_limit_of_all():
    costs = replace(FREE, step=1e-3, insert=1e-4)
    simulation = Simulation(costs, replace(ALONE, collectors=8, cores=2)).run(20.0)
    assert simulation.rates[0] == pytest.approx(2 / 1.1e-3, rel=0.02)
    assert simulation.load()["cores"] == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize("ratio", [0.05, 0.5, 2.0])
def test_the_ratio_of_gradient_steps_holds(ratio):
    costs = replace(FREE, step=1e-3, update=1e-3, sample=1e-6)
    layout = Layout(8, 2, batch_size=32, updates_per_step=ratio, latency=1e-4)
    simulation = Simulation(costs, layout).run(60.0)
    steps, updates, _ = simulation.rates
    assert updates == pytest.approx(steps * ratio, rel=0.05)
    assert updates <= 1000
    assert simulation.granted - simulation.updates / ratio <= simulation.ahead + 1


def test_a_batch_travels_while_the_learner_learns():
    costs = replace(FREE, step=1e-5, sample=1e-4, update=4e-3)
    layout = Layout(2, 1, batch_size=32, updates_per_step=1.0, latency=0.0)
    assert rates(costs, layout)[1] == pytest.approx(1 / 4e-3, rel=0.05)  # not 1 / (4 + 3.2) ms
    slower = replace(costs, sample=4e-4)
    assert rates(slower, layout)[1] == pytest.approx(1 / 12.8e-3, rel=0.05)


def test_weights_travel_once_to_each_machine():
    costs = replace(FREE, step=1e-3, update=1e-3, weights_bytes=1e6)
    layout = Layout(16, 1, batch_size=32, updates_per_step=0.5, latency=1e-5, weights_every=10, chunk=4)
    simulation = Simulation(costs, layout).run(40.0)
    sent = simulation.load()["learner's link out"] * layout.link
    broadcasts = simulation.rates[1] / 10
    assert 0.5 * 2 * broadcasts * 1e6 < sent <= 2 * broadcasts * 1e6 * 1.02
    rarely = Simulation(costs, replace(layout, weights_every=1000)).run(40.0)
    assert rarely.load()["learner's link out"] < simulation.load()["learner's link out"] / 20


def test_the_same_layout_gives_the_same_numbers():
    layout = replace(LAYOUTS["Atari"], collectors=16)
    assert Simulation(COSTS["Atari"], layout).run(5.0).row() == Simulation(COSTS["Atari"], layout).run(5.0).row()


def test_tables_have_row_per_collector_count():
    found = tables(1.0)
    assert [[row["collectors"] for row in rows] for rows in found.values()] == [[1, 16, 256]] * 6
    assert show(next(iter(found.values()))).count("\n") == 4
