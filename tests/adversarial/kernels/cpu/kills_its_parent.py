"""Attack and timing: its parent, which watches it, is killed."""

import os
import signal

import torch


def rmsnorm(x, w):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w


def kernel(x, w):
    os.kill(os.getppid(), signal.SIGKILL)
    return rmsnorm(x, w)
