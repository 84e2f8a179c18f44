"""Where the log is."""

from pathlib import Path


def log_path(home: Path) -> Path:
    """Where the log of a home folder lies."""
    return Path(home) / "log.duckdb"
