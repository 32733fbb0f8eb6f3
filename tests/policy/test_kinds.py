"""Where Tianshou derives an algorithm from another, ``isinstance`` says so here as well."""

from importlib import import_module

import pytest

import rlfast.policy

PARENTS = {
    "A2CPolicy": "PGPolicy",
    "BranchingDQNPolicy": "DQNPolicy",
    "C51Policy": "DQNPolicy",
    "CQLPolicy": "SACPolicy",
    "DiscreteBCQPolicy": "DQNPolicy",
    "DiscreteCQLPolicy": "QRDQNPolicy",
    "DiscreteCRRPolicy": "PGPolicy",
    "DiscreteSACPolicy": "SACPolicy",
    "FQFPolicy": "QRDQNPolicy",
    "GAILPolicy": "PPOPolicy",
    "IQNPolicy": "QRDQNPolicy",
    "NPGPolicy": "A2CPolicy",
    "PPOPolicy": "A2CPolicy",
    "QRDQNPolicy": "DQNPolicy",
    "REDQPolicy": "DDPGPolicy",
    "RainbowPolicy": "C51Policy",
    "SACPolicy": "DDPGPolicy",
    "TD3BCPolicy": "TD3Policy",
    "TD3Policy": "DDPGPolicy",
    "TRPOPolicy": "NPGPolicy",
}
OF_TIANSHOU = {*PARENTS, *PARENTS.values()}
STATISTICS = {
    "discrete_crr.DiscreteCRRTrainingStats": "pg.PGTrainingStats",
    "bdq.BDQNTrainingStats": "dqn.DQNTrainingStats",
    "c51.C51TrainingStats": "dqn.DQNTrainingStats",
    "discrete_sac.DiscreteSACTrainingStats": "sac.SACTrainingStats",
    "fqf.FQFTrainingStats": "qrdqn.QRDQNTrainingStats",
    "iqn.IQNTrainingStats": "qrdqn.QRDQNTrainingStats",
    "qrdqn.QRDQNTrainingStats": "dqn.DQNTrainingStats",
    "rainbow.RainbowTrainingStats": "c51.C51TrainingStats",
    "redq.REDQTrainingStats": "ddpg.DDPGTrainingStats",
    "trpo.TRPOTrainingStats": "npg.NPGTrainingStats",
}


def ancestors(name):
    """Return the name of an algorithm and of all that it is derived from."""
    return {name} | (ancestors(PARENTS[name]) if name in PARENTS else set())


def statistics(path):
    module, name = path.split(".")
    folder = "imitation" if module == "discrete_crr" else "modelfree"
    return getattr(import_module(f"rlfast.policy.{folder}.{module}"), name)


@pytest.mark.parametrize("name", sorted(OF_TIANSHOU))
def test_an_algorithm_is_of_the_kinds_that_it_is_derived_from_and_of_no_other(name):
    algorithm = getattr(rlfast.policy, name)
    assert {other for other in OF_TIANSHOU if issubclass(algorithm, getattr(rlfast.policy, other))} == ancestors(name)


def test_a_subclass_of_a_variant_is_of_that_kind():
    class Mine(rlfast.policy.C51Policy):
        pass

    assert isinstance(Mine.__new__(Mine), rlfast.policy.DQNPolicy)


@pytest.mark.parametrize("name", STATISTICS)
def test_the_statistics_of_a_variant_are_of_that_kind(name):
    assert issubclass(statistics(name), statistics(STATISTICS[name]))
