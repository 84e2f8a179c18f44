"""Errors that only callers of services tell from others; without NATS, so that a query to a file need not import it."""

from ..schemas import BusError


class NobodyServes(BusError):
    """No process serves what was asked for."""
