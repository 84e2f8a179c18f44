"""Attack: its process ends as if all were well."""

import os


def kernel(x, w):
    os._exit(0)
