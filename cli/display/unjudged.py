"""How far a candidate without a verdict came, and which step is the next one."""

_NEXT = {
    "planned": "its author's candidate",
    "proposed": "its compilation",
    "compiled": "its verification",
    "verified": "its timing, in turns with the baselines",
}


def next_step(state: str) -> str:
    """The step after ``state``, which is one of the column ``state`` of nodes in SQL."""
    return _NEXT.get(state, "its diagnosis")


def stage_text(state: str) -> str:
    """``state`` in words."""
    return "verified as correct, but not timed" if state == "verified" else state.replace("_", " ")
