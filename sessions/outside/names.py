"""Names of what outside authors speak of: ``SESSION``, the task ``SESSION/NODE``, its lease ``SESSION/NODE/N``."""

from typing import NamedTuple

from ...schemas import InputError


class Name(NamedTuple):
    """A name in its parts; what it does not say is empty."""

    session: str
    node: str = ""
    number: str = ""


def lease_name(text: str) -> Name:
    """The lease that ``text`` names. Errors: :func:`name`."""
    return name(text, 3, 3)


def task_name(text: str) -> Name:
    """The task, or the task of the lease, that ``text`` names. Errors: :func:`name`."""
    return name(text, 2, 3)


def name(text: str, fewest: int = 1, most: int = 3) -> Name:
    """What ``text`` names.

    Raises:
        InputError: it has too few or too many parts, or an empty one.
    """
    parts = text.split("/")
    if not fewest <= len(parts) <= most or not all(parts):
        wanted = " or ".join(("SESSION", "SESSION/NODE (a task)", "SESSION/NODE/N (a lease)")[fewest - 1 : most])
        raise InputError(f"{text!r} is not {wanted}: `kernelswarm tasks list` shows what there is")
    return Name(*parts)
