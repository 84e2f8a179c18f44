"""Meaning: a package installed (here an empty one, from nowhere, into its own folder)."""

import subprocess
import sys

import torch

subprocess.run([sys.executable, "-m", "pip", "install", "--no-index", "--target", ".", "nothing"], check=False)


def rmsnorm(x, w):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w


def kernel(x, w):
    return rmsnorm(x, w)
