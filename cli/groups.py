"""Groups of commands: what all of them have in common."""

from collections.abc import Callable, Iterable, Mapping

import typer
from rich.markup import escape


def group(name: str, help: str) -> typer.Typer:
    """A group that shows its help when it is named alone."""
    return typer.Typer(
        name=name,
        help=help,
        no_args_is_help=True,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["-h", "--help"]},
    )


def add_commands(
    app: typer.Typer, commands: Iterable[Callable[..., int]], examples: Mapping[str, Iterable[str]]
) -> None:
    """Add ``commands`` in the order of their ``examples``, which are by name."""
    for command, (name, lines) in zip(commands, examples.items(), strict=True):
        app.command(name, epilog=epilog(lines))(command)


def epilog(examples: Iterable[str], statuses: Iterable[str] = ()) -> str:
    """What stands below a command's help."""
    return "\n\n".join(["[bold]Examples[/]", *map(escape, examples), *statuses])
