"""Messages about state: what a module keeps between calls, and inputs that a call writes."""

from ....schemas import Schema

PARAMETER, BUFFER, NOT_PERSISTENT = "parameter", "buffer", "buffer_not_persistent"
ATTRIBUTE, INPUT = "attribute", "input"


def in_words(kind: str) -> str:
    """How a kind is called in sentences."""
    return BUFFER if kind == NOT_PERSISTENT else kind


class StateEntry(Schema, frozen=True, kw_only=True):
    """One thing that calls of the reference change."""

    name: str
    """Qualified name in the module (``norm.running_mean``, ``cache[0]``); of an input its parameter name."""

    kind: str
    """:data:`PARAMETER`, :data:`BUFFER`, :data:`NOT_PERSISTENT`, :data:`ATTRIBUTE` or :data:`INPUT`."""

    tensor: int = -1
    """Of an input: its index among all input tensors, depth first."""


class CheckState(Schema, frozen=True, kw_only=True, tag="check_state"):
    """Find out whether what the reference leaves alone is what it was after loading."""


class StateChecked(Schema, frozen=True, kw_only=True, tag="state_checked"):
    """The first difference; no message where there is none."""

    message: str = ""
    """One sentence."""

    expected: str = ""
    got: str = ""
