"""What is kept: the only folder that knows DuckDB."""

from typing import TYPE_CHECKING

from ..lazy_exports import lazy_exports

if TYPE_CHECKING:
    from .backup import backup_log
    from .errors import LogBusyError, UnknownSession
    from .export import Manifest, write_export
    from .following import tail_log
    from .importing import Imported, import_log
    from .location import log_path
    from .log import Log
    from .query import run_sql
    from .query_sandbox import Table
    from .question_library import Parameter, Question, question, questions
    from .readers import node, sessions, show, skills
    from .recorded import Recorded, read_recorded
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
    from .seeds import SearchedProblem, WinnerRow, searched_problems, winners
    from .session_verification import check_session, check_usable, verify_small
    from .shared_log import share_log
    from .snapshot import Copied, verify_log
    from .stats import LogStats, log_stats
    from .verify import VerifyResult
else:
    __getattr__, __dir__ = lazy_exports(__name__)
    __all__ = __dir__()
