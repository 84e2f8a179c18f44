"""Chooses MKL's vector functions while a process has one thread: MKL 2024.2 does it at the first call, without a lock.

torch computes ``exp``, ``log``, ``sqrt``, ``tanh`` and others of contiguous numbers by those functions, a part in each
thread. The first of two first calls stores the processor's type before it translates it, and the second takes its
function from the row of least accuracy meanwhile: on processors with AVX-512 half of an ``exp`` was off by 1.5e-4
(pytorch/pytorch#188792). The type is one for all functions and types of numbers.
"""

import torch


def choose_functions() -> None:
    """Call one of them on one number, which no other thread takes part in."""
    torch.exp(torch.ones(1))
