"""Experiments, and the builders that declare them."""

from rlfast.highlevel.experiment.algorithms import (
    A2CExperimentBuilder,
    DDPGExperimentBuilder,
    DiscreteSACExperimentBuilder,
    DQNExperimentBuilder,
    IQNExperimentBuilder,
    NPGExperimentBuilder,
    PGExperimentBuilder,
    PPOExperimentBuilder,
    REDQExperimentBuilder,
    SACExperimentBuilder,
    TD3ExperimentBuilder,
    TRPOExperimentBuilder,
)
from rlfast.highlevel.experiment.builder import ExperimentBuilder
from rlfast.highlevel.experiment.experiment import (
    Experiment,
    ExperimentCollection,
    ExperimentConfig,
    ExperimentResult,
    log,
)

__all__ = [
    "A2CExperimentBuilder",
    "DDPGExperimentBuilder",
    "DQNExperimentBuilder",
    "DiscreteSACExperimentBuilder",
    "Experiment",
    "ExperimentBuilder",
    "ExperimentCollection",
    "ExperimentConfig",
    "ExperimentResult",
    "IQNExperimentBuilder",
    "NPGExperimentBuilder",
    "PGExperimentBuilder",
    "PPOExperimentBuilder",
    "REDQExperimentBuilder",
    "SACExperimentBuilder",
    "TD3ExperimentBuilder",
    "TRPOExperimentBuilder",
    "log",
]
