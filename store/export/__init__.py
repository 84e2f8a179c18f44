"""What leaves the log: training data with measured rewards, events to import elsewhere, Parquet. No secrets."""

from .manifest import FileEntry, LogEntry, Manifest, ProblemEntry
from .rows import DpoRow, GrpoRow, SftRow
from .scrub import Scrubber
from .write import FORMATS, write_export
