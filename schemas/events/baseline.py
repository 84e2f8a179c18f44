"""The baselines of a session's problem are ready."""

from ..timing import BaselineReport
from .base import Event


class BaselinesMeasured(Event, frozen=True, kw_only=True, tag="baselines.measured.v1"):
    """Eager, torch.compile and max-autotune were compiled on a worker of the pool and timed once."""

    report: BaselineReport
