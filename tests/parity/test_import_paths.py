"""Import paths of Tianshou 1.0 exist in rlfast, and lead to the same objects as rlfast's own paths."""

import subprocess
import sys
from importlib import import_module

import pytest

import rlfast
from names.resolve import MISSING, find, table

PATHS = {
    "data.batch": "Batch BatchProtocol alloc_by_keys_diff create_value",
    "data.buffer.base": "ReplayBuffer",
    "data.buffer.cached": "CachedReplayBuffer",
    "data.buffer.her": "HERReplayBuffer",
    "data.buffer.manager": "HERReplayBufferManager PrioritizedReplayBufferManager ReplayBufferManager",
    "data.buffer.prio": "PrioritizedReplayBuffer",
    "data.buffer.vecbuf": "HERVectorReplayBuffer PrioritizedVectorReplayBuffer VectorReplayBuffer",
    "data.collector": "AsyncCollector CollectStats CollectStatsBase Collector",
    "data.stats": "EpochStats InfoStats SequenceSummaryStats TimingStats",
    "data.types": "LogpOldProtocol ObsBatchProtocol RolloutBatchProtocol",
    "data.utils.converter": "from_hdf5 to_hdf5 to_numpy to_torch to_torch_as",
    "data.utils.segtree": "SegmentTree",
    "env.gym_wrappers": "ContinuousToDiscrete MultiDiscreteToDiscrete TruncatedAsTerminated",
    "env.pettingzoo_env": "PettingZooEnv",
    "env.venv_wrappers": "VectorEnvNormObs VectorEnvWrapper",
    "env.venvs": "BaseVectorEnv DummyVectorEnv RayVectorEnv ShmemVectorEnv SubprocVectorEnv",
    "env.worker": "DummyEnvWorker EnvWorker RayEnvWorker SubprocEnvWorker",
    "env.worker.base": "EnvWorker",
    "env.worker.dummy": "DummyEnvWorker",
    "env.worker.ray": "RayEnvWorker",
    "env.worker.subproc": "SubprocEnvWorker",
    "exploration.random": "BaseNoise GaussianNoise OUNoise",
    "policy.base": "BasePolicy TTrainingStats TrainingStats TrainingStatsWrapper",
    "policy.modelfree.dqn": "DQNPolicy DQNTrainingStats",
    "policy.modelfree.ppo": "PPOPolicy PPOTrainingStats",
    "policy.modelfree.sac": "SACPolicy SACTrainingStats",
    "policy.random": "RandomPolicy",
    "trainer.base": "BaseTrainer OfflineTrainer OffpolicyTrainer OnpolicyTrainer",
    "trainer.utils": "gather_info test_episode",
    "utils.conversion": "to_optional_float",
    "utils.logger.base": "BaseLogger DataScope LazyLogger VALID_LOG_VALS VALID_LOG_VALS_TYPE",
    "utils.logger.tensorboard": "BasicLogger TensorboardLogger",
    "utils.logger.wandb": "WandbLogger",
    "utils.lr_scheduler": "MultipleLRSchedulers",
    "utils.net.common": "MLP ActorCritic DataParallelNet Net NetBase Recurrent",
    "utils.net.continuous": "Actor ActorProb Critic RecurrentActorProb RecurrentCritic",
    "utils.net.discrete": "Actor Critic",
    "utils.optim": "clone_optimizer optim_step",
    "utils.print": "DataclassPPrintMixin",
    "utils.progress_bar": "DummyTqdm tqdm_config",
    "utils.space_info": "ActionSpaceInfo ObservationSpaceInfo SpaceInfo",
    "utils.statistics": "MovAvg RunningMeanStd",
    "utils.warning": "deprecation",
}


@pytest.mark.parametrize("path", PATHS)
def test_tianshous_paths(path):
    module, package = import_module(f"rlfast.{path}"), getattr(rlfast, path.partition(".")[0])
    for name in PATHS[path].split():
        assert getattr(module, name) is getattr(package, name, getattr(module, name))


@pytest.mark.parametrize("path", ["data.collector", "env.worker", "trainer.base"])
def test_other_names_are_missed_as_usual(path):
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        _ = import_module(f"rlfast.{path}").Nothing


def test_modules_are_attributes_without_imports_of_their_own():
    """As ``import tianshou`` imports all of them, and ``import tianshou.highlevel.experiment`` those around it."""
    missing = """
import rlfast, rlfast.highlevel
for path in {paths}:
    found = rlfast
    for name in path.split("."):
        found = getattr(found, name, None)
    if found is None:
        print(path)
"""
    paths = [line.path for line in table() if line.kind == "module" and line.since == "1.0"]
    code = missing.format(paths=[path for path in paths if find(path) is not MISSING])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert len(paths) > 80
    assert done.stdout.split() == []
