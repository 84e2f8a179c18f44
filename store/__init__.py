"""What is kept: the only folder that knows DuckDB."""

from .backup import backup_log
from .database import LogBusyError
from .export import Manifest, write_export
from .following import tail_log
from .importing import Imported, import_log
from .log import Log, log_path
from .query import run_sql
from .query_sandbox import Table
from .questions import Parameter, Question, question, questions
from .readers import node, sessions, show, skills
from .recorded import Recorded, UnknownSession, read_recorded
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
from .session_verification import check_session, check_usable, verify_small
from .snapshot import Copied, verify_log
from .stats import LogStats, log_stats
from .verify import VerifyResult
from .winners import SearchedProblem, WinnerRow, searched_problems, winners

__all__ = [
    "AdviceRow",
    "Copied",
    "DiagnosisRow",
    "FindingRow",
    "Imported",
    "Log",
    "LogBusyError",
    "LogStats",
    "Manifest",
    "MeasurementRow",
    "NodeReport",
    "NodeRow",
    "Parameter",
    "Question",
    "Recorded",
    "Recorder",
    "SearchedProblem",
    "SessionReport",
    "SessionRow",
    "SkillRow",
    "Table",
    "UnknownSession",
    "VerifyResult",
    "WinnerRow",
    "backup_log",
    "check_session",
    "check_usable",
    "import_log",
    "log_path",
    "log_stats",
    "node",
    "question",
    "questions",
    "read_recorded",
    "recording",
    "run_sql",
    "searched_problems",
    "sessions",
    "show",
    "skills",
    "tail_log",
    "verify_log",
    "verify_small",
    "wait_recorded",
    "winners",
    "write_export",
]
