"""Seeds the global random generators that the code of a problem or candidate draws from."""

import random
import sys

import torch

from ...processes.messages import HOST
from ..tensors.tensor_placement import current_device


def seed_everything(seed: int) -> None:
    """Seed torch's, Python's and, where it is imported, numpy's generator."""
    # `torch.manual_seed` asks every kind of accelerator, with a traceback for each that is not in use: 200 us a draw.
    torch.default_generator.manual_seed(seed)
    if current_device().device.type != HOST:
        torch.cuda.manual_seed_all(seed)
    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed % 2**32)
