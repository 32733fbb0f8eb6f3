"""Acting and learning with PyTorch."""

from rlfast.utils.runtime.extras import needed_by

with needed_by("rlfast.policy"):
    from rlfast.policy.base import ActingPolicy, BasePolicy, TrainingStats
    from rlfast.policy.components.temperature import Alpha, AutoAlpha, FixedAlpha
    from rlfast.policy.imitation.base import ImitationPolicy
    from rlfast.policy.imitation.bcq import BCQPolicy
    from rlfast.policy.imitation.cql import CQLPolicy
    from rlfast.policy.imitation.discrete_bcq import DiscreteBCQPolicy
    from rlfast.policy.imitation.discrete_cql import DiscreteCQLPolicy
    from rlfast.policy.imitation.discrete_crr import DiscreteCRRPolicy
    from rlfast.policy.imitation.gail import GAILPolicy
    from rlfast.policy.imitation.iql import IQLPolicy
    from rlfast.policy.imitation.rebrac import ReBRACPolicy
    from rlfast.policy.imitation.td3_bc import TD3BCPolicy
    from rlfast.policy.modelbased.icm import ICMPolicy
    from rlfast.policy.modelbased.psrl import PSRLPolicy
    from rlfast.policy.modelfree.a2c import A2CPolicy
    from rlfast.policy.modelfree.bdq import BranchingDQNPolicy
    from rlfast.policy.modelfree.c51 import C51Policy
    from rlfast.policy.modelfree.crossq import CrossQPolicy
    from rlfast.policy.modelfree.ddpg import DDPGPolicy
    from rlfast.policy.modelfree.discrete_sac import DiscreteSACPolicy
    from rlfast.policy.modelfree.dqn import DQNPolicy
    from rlfast.policy.modelfree.droq import DroQPolicy
    from rlfast.policy.modelfree.fqf import FQFPolicy
    from rlfast.policy.modelfree.iqn import IQNPolicy
    from rlfast.policy.modelfree.npg import NPGPolicy
    from rlfast.policy.modelfree.pg import PGPolicy
    from rlfast.policy.modelfree.ppo import PPOPolicy
    from rlfast.policy.modelfree.pqn import PQNPolicy
    from rlfast.policy.modelfree.qrdqn import QRDQNPolicy
    from rlfast.policy.modelfree.r2d2 import R2D2Policy
    from rlfast.policy.modelfree.rainbow import RainbowPolicy
    from rlfast.policy.modelfree.redq import REDQPolicy
    from rlfast.policy.modelfree.sac import SACPolicy
    from rlfast.policy.modelfree.td3 import TD3Policy
    from rlfast.policy.modelfree.tqc import TQCPolicy
    from rlfast.policy.modelfree.trpo import TRPOPolicy
    from rlfast.policy.multiagent.mapolicy import MultiAgentPolicyManager
    from rlfast.policy.random import MARLRandomPolicy, RandomPolicy

__all__ = [
    "A2CPolicy",
    "ActingPolicy",
    "Alpha",
    "AutoAlpha",
    "BCQPolicy",
    "BasePolicy",
    "BranchingDQNPolicy",
    "C51Policy",
    "CQLPolicy",
    "CrossQPolicy",
    "DDPGPolicy",
    "DQNPolicy",
    "DiscreteBCQPolicy",
    "DiscreteCQLPolicy",
    "DiscreteCRRPolicy",
    "DiscreteSACPolicy",
    "DroQPolicy",
    "FQFPolicy",
    "FixedAlpha",
    "GAILPolicy",
    "ICMPolicy",
    "IQLPolicy",
    "IQNPolicy",
    "ImitationPolicy",
    "MARLRandomPolicy",
    "MultiAgentPolicyManager",
    "NPGPolicy",
    "PGPolicy",
    "PPOPolicy",
    "PQNPolicy",
    "PSRLPolicy",
    "QRDQNPolicy",
    "R2D2Policy",
    "REDQPolicy",
    "RainbowPolicy",
    "RandomPolicy",
    "ReBRACPolicy",
    "SACPolicy",
    "TD3BCPolicy",
    "TD3Policy",
    "TQCPolicy",
    "TRPOPolicy",
    "TrainingStats",
]
