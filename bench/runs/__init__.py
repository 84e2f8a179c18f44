"""A run of a public benchmark, whichever it is: tasks, sessions, rows, going on where it was left, the report."""

from ...sessions.spectator import Spectator
from .benchmark import Benchmark, Choice, Measured, Task
from .progress import Progress, Watcher
from .report import Report, report_on
from .results_table import ResultsTable
from .row import Outcome, Row
from .run import report_so_far, run_benchmark
from .run_configuration import RunConfiguration
from .score import FastP, Misses
