"""Attack: a connection to another process."""

import socket

import torch


def rmsnorm(x, w):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w


def kernel(x, w):
    socket.create_connection(("127.0.0.1", 9))
    return rmsnorm(x, w)
