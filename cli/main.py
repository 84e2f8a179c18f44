"""``kernelswarm``: the command line. Commands stand in files of their own; here errors become exits."""

from typing import Annotated, Any

import typer
from rich.markup import escape

from ..schemas import BusError, InputError, KernelswarmError, StoreError
from .commands import (
    bench,
    compile,
    diff,
    doctor,
    evaluate,
    export,
    fork,
    knowledge,
    lineage,
    log,
    mcp,
    models,
    optimize,
    pools,
    record,
    replay,
    resume,
    sessions,
    show,
    sql,
    swarm,
    tasks,
    time,
)
from .connecting import connecting
from .display.terminal import configure_logging, err
from .interrupts import EXIT_INTERRUPTED
from .usage_errors import mistake

EXIT_NO = 1
EXIT_BAD_INPUT = 2

UsageError: Any = typer.BadParameter.__base__
"""What the command line's grammar refuses. It is click's; newer typers carry click inside, under a private name."""

app = typer.Typer(
    name="kernelswarm",
    help="Find faster kernels with a swarm of agents; every number can be replayed and asked about.",
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
SEARCHING = (optimize, fork, resume)
EXIT_STATUSES = (
    "[bold]Exit status[/]",
    "0 done, also without a win · 1 the reference died: nothing could be judged · 2 bad input · "
    "3 nothing could be tried: not one candidate was made · 130 interrupted",
)

for module in (
    optimize,
    fork,
    evaluate,
    time,
    compile,
    swarm,
    mcp,
    record,
    pools,
    models,
    doctor,
    sessions,
    show,
    lineage,
    diff,
    replay,
    resume,
    sql,
    export,
):
    name = module.__name__.rpartition(".")[2]
    statuses = EXIT_STATUSES if module in SEARCHING else ()
    examples = "\n\n".join(["[bold]Examples[/]", *map(escape, module.EXAMPLES), *statuses])
    app.command(name, epilog=examples)(connecting(getattr(module, name)))
app.add_typer(log.app)
app.add_typer(bench.app)
app.add_typer(knowledge.app)
app.add_typer(tasks.app)


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        typer.echo(f"kernelswarm {version('kernelswarm')}")
        raise typer.Exit


@app.callback()
def _main(
    verbose: Annotated[
        int, typer.Option("--verbose", "-v", count=True, show_default=False, help="Say more; twice for everything.")
    ] = 0,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    configure_logging(verbose)


def run(arguments: list[str]) -> int:
    """Run the command line and return its exit status; what is nobody's fault but ours is raised."""
    command = typer.main.get_command(app)
    try:
        status = command.main(arguments or ["--help"], prog_name="kernelswarm", standalone_mode=False)
    except KeyboardInterrupt:
        status = EXIT_INTERRUPTED
    except UsageError as error:
        return _refuse(error)
    except (Exception, BaseExceptionGroup) as error:  # noqa: BLE001 - what has no sentence of its own is raised again
        status = _status(plain(error))
    if status == EXIT_INTERRUPTED:
        err.print("interrupted")
    return status if isinstance(status, int) else 0


def plain(error: BaseException) -> BaseException:
    """What went wrong first inside the groups that concurrent tasks wrap errors in; a user's mistake before others."""
    if not isinstance(error, BaseExceptionGroup):
        return error
    leaves = [plain(inner) for inner in error.exceptions]
    return next((leaf for leaf in leaves if isinstance(leaf, KernelswarmError | KeyboardInterrupt)), leaves[0])


def _status(error: BaseException) -> int:
    match error:
        case InputError() | BusError() | StoreError():
            return _say(str(error), EXIT_BAD_INPUT)
        case KernelswarmError():
            return _say(str(error), EXIT_NO)
        case KeyboardInterrupt() | typer.Abort():
            return EXIT_INTERRUPTED
        case OSError() if error.filename or error.errno:
            # A disk that fills up or a folder that is taken away, wherever it is noticed first.
            prefix = f"{error.filename}: " if error.filename else ""
            return _say(f"{prefix}{error.strerror}; KERNELSWARM_HOME chooses another disk or folder", EXIT_BAD_INPUT)
        case _:
            raise error


def _refuse(error: Any) -> int:
    if sentence := mistake(error):  # a group that was named alone has shown its help, and says nothing
        _say(sentence, EXIT_BAD_INPUT)
    if sentence and error.ctx is not None:
        err.print(f"{error.ctx.command_path} --help shows what there is", markup=False, style="dim")
    return EXIT_BAD_INPUT


def _say(sentence: str, status: int) -> int:
    err.print(f"[bold red]error[/]: {escape(sentence)}")
    return status
