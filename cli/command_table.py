"""Which commands there are. A command's file is imported when it is asked for: all of them take 0.6 seconds."""

import importlib
from collections.abc import Iterator, MutableMapping
from typing import Any

import typer
from rich.markup import escape
from typer.core import TyperGroup

from .connecting import connecting

ORDER = (
    *("optimize", "fork", "evaluate", "time", "compile", "swarm", "mcp", "record", "pools", "models", "doctor"),
    *("sessions", "show", "lineage", "diff", "replay", "resume", "sql", "export"),
    *("log", "bench", "knowledge", "tasks"),
)
"""As the help lists them; each stands in a file of its name, those of the last line as groups."""
SEARCHING = ("optimize", "fork", "resume")
EXIT_STATUSES = (
    "[bold]Exit status[/]",
    "0 done, also without a win · 1 the reference died: nothing could be judged · 2 bad input · "
    "3 nothing could be tried: not one candidate was made · 130 interrupted",
)


class CommandTable(MutableMapping[str, Any]):
    """Commands by name, made when they are first asked for."""

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            if name not in ORDER:
                raise KeyError(name)
            self._made[name] = _command(name)
        return self._made[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._made[name] = command

    def __delitem__(self, name: str) -> None:
        del self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((*ORDER, *self._made)))

    def __len__(self) -> int:
        return len({*ORDER, *self._made})


class CommandGroup(TyperGroup):
    """The program: a group whose commands are a :class:`CommandTable`."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = CommandTable()

    def list_commands(self, ctx: Any) -> list[str]:
        """Names alone: nobody's file is imported for them."""
        return list(self.commands)


def _command(name: str) -> Any:
    module = importlib.import_module(f".commands.{name}", __package__)
    group = getattr(module, "app", None)
    if group is None:
        # One command of a program is the program.
        statuses = EXIT_STATUSES if name in SEARCHING else ()
        examples = "\n\n".join(["[bold]Examples[/]", *map(escape, module.EXAMPLES), *statuses])
        group = typer.Typer(rich_markup_mode="rich", add_completion=False, pretty_exceptions_enable=False)
        group.command(name, epilog=examples)(connecting(getattr(module, name)))
    return typer.main.get_command(group)
