"""Turns any captured PyTorch operator into fast, shape-generic, self-contained C++ candidates."""

from .generator import Exhausted, Generator, Proposal

__all__ = ["Exhausted", "Generator", "Proposal"]
