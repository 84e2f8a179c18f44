"""A conversation with a model as text."""

from collections.abc import Sequence

from rich.markup import escape

from ...sessions.conversation import Turn
from .terminal import out

_STYLES = {"model": "bold green", "tool": "bold cyan", "knowledge": "bold magenta"}


def print_conversation(turns: Sequence[Turn]) -> None:
    """Print every turn under its head."""
    for turn in turns:
        style = _STYLES.get(turn.who, "bold")
        out.print(f"[{style}]── {turn.who}[/]{f'  {escape(turn.title)}' if turn.title else ''}")
        out.print(turn.text, markup=False, highlight=False)
        out.print()
