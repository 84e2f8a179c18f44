"""Turning measurements into a diagnosis: the bottleneck, on which evidence, and what to try."""

from .agent import Analyst
from .diagnose import diagnose

__all__ = ["Analyst", "diagnose"]
