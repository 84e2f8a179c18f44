"""Attack: its process aborts."""

import os


def kernel(x, w):
    os.abort()
