"""The public benchmark KernelBench, run from the user's own checkout: nothing of it lies in here."""

from .bench import bench, report_so_far
from .checkout import Task, chosen, tasks_of
from .progress import Progress, Spectator, Watcher
from .report import Report, report_on
from .results_table import ResultsTable
from .row import Outcome, Row
from .run_configuration import RunConfiguration
from .score import FastP, Misses

__all__ = [
    "FastP",
    "Misses",
    "Outcome",
    "Progress",
    "Report",
    "ResultsTable",
    "Row",
    "RunConfiguration",
    "Spectator",
    "Task",
    "Watcher",
    "bench",
    "chosen",
    "report_on",
    "report_so_far",
    "tasks_of",
]
