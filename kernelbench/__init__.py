"""The public benchmark KernelBench, run from the user's own checkout: nothing of it lies in here."""

from .bench import bench, report_so_far
from .checkout import Task, chosen, tasks_of
from .order import Order
from .report import Report, report_on
from .row import Outcome, Row
from .score import FastP, Misses
from .sheet import Sheet
from .watching import Progress, Spectator, Watcher

__all__ = [
    "FastP",
    "Misses",
    "Order",
    "Outcome",
    "Progress",
    "Report",
    "Row",
    "Sheet",
    "Spectator",
    "Task",
    "Watcher",
    "bench",
    "chosen",
    "report_on",
    "report_so_far",
    "tasks_of",
]
