"""Errors that callers tell from others. Without DuckDB, as :mod:`.location`: to name them takes no log."""

from ..schemas import InputError, StoreError


class LogBusyError(StoreError):
    """Somebody else has the file or the memory just now; it may be tried again."""


class UnknownSession(InputError):
    """The log has no such session."""
