"""How much a query may take, unless it is told otherwise."""

MAX_ROWS = 10_000
"""Rows that it returns at most."""

TIMEOUT_SECONDS = 30.0
"""How long it may take."""
