"""What every command prints through: colours only on a terminal, results on stdout, everything else on stderr."""

import logging
import sys

import structlog
from rich.console import Console

out = Console(soft_wrap=True, highlight=False)
"""Results."""

err = Console(stderr=True, soft_wrap=True, highlight=False)
"""Progress, notices and errors."""


def configure_logging(verbosity: int) -> None:
    """Send structlog to stderr: warnings by default, more with ``-v`` and ``-vv``."""
    level = {0: logging.WARNING, 1: logging.INFO}.get(verbosity, logging.DEBUG)
    logging.basicConfig(stream=sys.stderr, level=max(level, logging.WARNING), format="%(name)s: %(message)s")
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(level),
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="%H:%M:%S", utc=False),
            structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty()),
        ],
        logger_factory=structlog.PrintLoggerFactory(file=sys.stderr),
    )
