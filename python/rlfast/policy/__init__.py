"""Acting and learning with PyTorch. Each policy is imported on first access, as a program needs few of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlfast.utils.runtime.extras import lazy_names, needed_by

with needed_by("rlfast.policy"):
    import torch  # noqa: F401

if TYPE_CHECKING:
    from rlfast.policy.base import ActingPolicy as ActingPolicy
    from rlfast.policy.base import BasePolicy as BasePolicy
    from rlfast.policy.base import TrainingStats as TrainingStats
    from rlfast.policy.components.temperature import Alpha as Alpha
    from rlfast.policy.components.temperature import AutoAlpha as AutoAlpha
    from rlfast.policy.components.temperature import FixedAlpha as FixedAlpha
    from rlfast.policy.imitation.base import ImitationPolicy as ImitationPolicy
    from rlfast.policy.imitation.bcq import BCQPolicy as BCQPolicy
    from rlfast.policy.imitation.cql import CQLPolicy as CQLPolicy
    from rlfast.policy.imitation.discrete_bcq import DiscreteBCQPolicy as DiscreteBCQPolicy
    from rlfast.policy.imitation.discrete_cql import DiscreteCQLPolicy as DiscreteCQLPolicy
    from rlfast.policy.imitation.discrete_crr import DiscreteCRRPolicy as DiscreteCRRPolicy
    from rlfast.policy.imitation.gail import GAILPolicy as GAILPolicy
    from rlfast.policy.imitation.iql import IQLPolicy as IQLPolicy
    from rlfast.policy.imitation.rebrac import ReBRACPolicy as ReBRACPolicy
    from rlfast.policy.imitation.td3_bc import TD3BCPolicy as TD3BCPolicy
    from rlfast.policy.modelbased.icm import ICMPolicy as ICMPolicy
    from rlfast.policy.modelbased.psrl import PSRLPolicy as PSRLPolicy
    from rlfast.policy.modelfree.a2c import A2CPolicy as A2CPolicy
    from rlfast.policy.modelfree.bdq import BranchingDQNPolicy as BranchingDQNPolicy
    from rlfast.policy.modelfree.c51 import C51Policy as C51Policy
    from rlfast.policy.modelfree.crossq import CrossQPolicy as CrossQPolicy
    from rlfast.policy.modelfree.ddpg import DDPGPolicy as DDPGPolicy
    from rlfast.policy.modelfree.discrete_sac import DiscreteSACPolicy as DiscreteSACPolicy
    from rlfast.policy.modelfree.dqn import DQNPolicy as DQNPolicy
    from rlfast.policy.modelfree.droq import DroQPolicy as DroQPolicy
    from rlfast.policy.modelfree.fqf import FQFPolicy as FQFPolicy
    from rlfast.policy.modelfree.iqn import IQNPolicy as IQNPolicy
    from rlfast.policy.modelfree.npg import NPGPolicy as NPGPolicy
    from rlfast.policy.modelfree.pg import PGPolicy as PGPolicy
    from rlfast.policy.modelfree.ppo import PPOPolicy as PPOPolicy
    from rlfast.policy.modelfree.pqn import PQNPolicy as PQNPolicy
    from rlfast.policy.modelfree.qrdqn import QRDQNPolicy as QRDQNPolicy
    from rlfast.policy.modelfree.r2d2 import R2D2Policy as R2D2Policy
    from rlfast.policy.modelfree.rainbow import RainbowPolicy as RainbowPolicy
    from rlfast.policy.modelfree.redq import REDQPolicy as REDQPolicy
    from rlfast.policy.modelfree.sac import SACPolicy as SACPolicy
    from rlfast.policy.modelfree.td3 import TD3Policy as TD3Policy
    from rlfast.policy.modelfree.tqc import TQCPolicy as TQCPolicy
    from rlfast.policy.modelfree.trpo import TRPOPolicy as TRPOPolicy
    from rlfast.policy.modelfree.xqc import XQCPolicy as XQCPolicy
    from rlfast.policy.multiagent.mapolicy import MultiAgentPolicyManager as MultiAgentPolicyManager
    from rlfast.policy.random import MARLRandomPolicy as MARLRandomPolicy
    from rlfast.policy.random import RandomPolicy as RandomPolicy

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "base": ("ActingPolicy", "BasePolicy", "TrainingStats"),
        "components.temperature": ("Alpha", "AutoAlpha", "FixedAlpha"),
        "imitation.base": ("ImitationPolicy",),
        "imitation.bcq": ("BCQPolicy",),
        "imitation.cql": ("CQLPolicy",),
        "imitation.discrete_bcq": ("DiscreteBCQPolicy",),
        "imitation.discrete_cql": ("DiscreteCQLPolicy",),
        "imitation.discrete_crr": ("DiscreteCRRPolicy",),
        "imitation.gail": ("GAILPolicy",),
        "imitation.iql": ("IQLPolicy",),
        "imitation.rebrac": ("ReBRACPolicy",),
        "imitation.td3_bc": ("TD3BCPolicy",),
        "modelbased.icm": ("ICMPolicy",),
        "modelbased.psrl": ("PSRLPolicy",),
        "modelfree.a2c": ("A2CPolicy",),
        "modelfree.bdq": ("BranchingDQNPolicy",),
        "modelfree.c51": ("C51Policy",),
        "modelfree.crossq": ("CrossQPolicy",),
        "modelfree.ddpg": ("DDPGPolicy",),
        "modelfree.discrete_sac": ("DiscreteSACPolicy",),
        "modelfree.dqn": ("DQNPolicy",),
        "modelfree.droq": ("DroQPolicy",),
        "modelfree.fqf": ("FQFPolicy",),
        "modelfree.iqn": ("IQNPolicy",),
        "modelfree.npg": ("NPGPolicy",),
        "modelfree.pg": ("PGPolicy",),
        "modelfree.ppo": ("PPOPolicy",),
        "modelfree.pqn": ("PQNPolicy",),
        "modelfree.qrdqn": ("QRDQNPolicy",),
        "modelfree.r2d2": ("R2D2Policy",),
        "modelfree.rainbow": ("RainbowPolicy",),
        "modelfree.redq": ("REDQPolicy",),
        "modelfree.sac": ("SACPolicy",),
        "modelfree.td3": ("TD3Policy",),
        "modelfree.tqc": ("TQCPolicy",),
        "modelfree.trpo": ("TRPOPolicy",),
        "modelfree.xqc": ("XQCPolicy",),
        "multiagent.mapolicy": ("MultiAgentPolicyManager",),
        "random": ("MARLRandomPolicy", "RandomPolicy"),
    },
)
