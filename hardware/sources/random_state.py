"""The caller's random numbers: what runs a user's module in the user's own process leaves them as they were."""

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def random_state_kept() -> Iterator[None]:
    """Put the generators of torch, of CUDA where it is initialized, of NumPy and of Python back at the end."""
    import torch

    numpy = sys.modules.get("numpy.random")
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    python_state, numpy_state = random.getstate(), numpy.get_state() if numpy is not None else None
    with torch.random.fork_rng(devices=list(devices)):
        try:
            yield
        finally:
            random.setstate(python_state)
            if numpy is not None:
                numpy.set_state(numpy_state)
