"""Turns any captured PyTorch operator into fast, shape-generic, self-contained C++ candidates."""

from .playbook import Exhausted, Playbook, Proposal

__all__ = ["Exhausted", "Playbook", "Proposal"]
