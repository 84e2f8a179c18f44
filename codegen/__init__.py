"""Turns any captured PyTorch operator into fast, shape-generic, self-contained C++ candidates."""

from .generator import Exhausted, Playbook, Proposal

__all__ = ["Exhausted", "Playbook", "Proposal"]
