"""What is kept: the only folder that knows DuckDB."""

from .database import LogBusyError
from .guard import Table
from .log import Log, log_path
from .query import run_sql
from .readers import node, sessions, show, skills
from .recorder import Recorder, recording, wait_recorded
from .records import (
    AdviceRow,
    DiagnosisRow,
    FindingRow,
    MeasurementRow,
    NodeReport,
    NodeRow,
    SessionReport,
    SessionRow,
    SkillRow,
)
from .verify import VerifyResult

__all__ = [
    "AdviceRow",
    "DiagnosisRow",
    "FindingRow",
    "Log",
    "LogBusyError",
    "MeasurementRow",
    "NodeReport",
    "NodeRow",
    "Recorder",
    "SessionReport",
    "SessionRow",
    "SkillRow",
    "Table",
    "VerifyResult",
    "log_path",
    "node",
    "recording",
    "run_sql",
    "sessions",
    "show",
    "skills",
    "wait_recorded",
]
