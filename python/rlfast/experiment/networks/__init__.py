"""Networks for the observation and action spaces of an environment."""

from rlfast.experiment.networks.encoder import Encoded, Encoder, is_image
from rlfast.experiment.networks.networks import ACTIVATIONS, Networks, initialize_orthogonally

__all__ = ["ACTIVATIONS", "Encoded", "Encoder", "Networks", "initialize_orthogonally", "is_image"]
