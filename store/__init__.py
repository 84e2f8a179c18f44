"""What is kept: the only folder that knows DuckDB."""

from .database import LogBusyError
from .guard import Table
from .log import Log, log_path
from .query import run_sql
from .recorder import Recorder, recording, wait_recorded
from .verify import VerifyResult

__all__ = [
    "Log",
    "LogBusyError",
    "Recorder",
    "Table",
    "VerifyResult",
    "log_path",
    "recording",
    "run_sql",
    "wait_recorded",
]
