"""The finished file: a candidate and its reference as one drop-in that needs nothing of kernelswarm."""

from .finishing import finish

__all__ = ["finish"]
