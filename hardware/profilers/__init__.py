"""What a candidate does while it runs: a processor's counters (``perf``), an accelerator's profilers (``device``)."""

from .perf import CounterSession, why_no_hardware_counters

__all__ = ["CounterSession", "why_no_hardware_counters"]
