"""rlfast's storage and priorities for TorchRL 0.14.

The parts can be used on their own, or the whole buffer::

    - from torchrl.data import PrioritizedSampler
    + from rlfast.interop.torchrl import PrioritizedSampler

    - buffer = TensorDictPrioritizedReplayBuffer(alpha=0.6, beta=0.4, storage=LazyTensorStorage(100_000))
    + buffer = TensorDictReplayBuffer(100_000, alpha=0.6, beta=0.4)
"""

from rlfast.interop._hosts import missing

try:
    from rlfast.interop.torchrl._buffer import TensorDictReplayBuffer
    from rlfast.interop.torchrl._convert import from_tensordict, to_tensordict
    from rlfast.interop.torchrl._sampler import PrioritizedSampler
    from rlfast.interop.torchrl._storage import Storage
except ImportError as error:
    raise missing(__name__, "TorchRL", 'pip install "torchrl>=0.14,<0.15"') from error

__all__ = ["PrioritizedSampler", "Storage", "TensorDictReplayBuffer", "from_tensordict", "to_tensordict"]
