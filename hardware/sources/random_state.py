"""The caller's random numbers: what runs a user's module in the user's own process leaves them as they were."""

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext


@contextmanager
def random_state_kept() -> Iterator[None]:
    """Put the generators of torch, of CUDA where it is initialized, of NumPy and of Python back at the end.

    Those of libraries that are not imported yet are nobody's.
    """
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy.random")
    python_state, numpy_state = random.getstate(), numpy.get_state() if numpy is not None else None
    devices = range(torch.cuda.device_count()) if torch is not None and torch.cuda.is_initialized() else ()
    with torch.random.fork_rng(devices=list(devices)) if torch is not None else nullcontext():
        try:
            yield
        finally:
            random.setstate(python_state)
            if numpy is not None:
                numpy.set_state(numpy_state)
