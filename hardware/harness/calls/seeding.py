"""The global generators that a problem's or candidate's code draws from."""

import random
import sys

import torch

from ...processes.messages import HOST
from ..tensors.tensor_placement import current_device


def seed_everything(seed: int) -> None:
    """Seed torch's, Python's and, where it is imported, numpy's generator."""
    if current_device().device.type == HOST:
        # `torch.manual_seed` also asks every accelerator, with a traceback for each that is not in use: 200 us a draw.
        torch.default_generator.manual_seed(seed)
    else:
        torch.manual_seed(seed)
    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed % 2**32)
