"""Counters of what a candidate's process did: one file per source."""

from .perf import CounterSession, why_no_hardware_counters

__all__ = ["CounterSession", "why_no_hardware_counters"]
