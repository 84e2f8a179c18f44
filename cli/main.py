"""``kernelswarm``: the command line. Commands stand in files of their own, imported when one is asked for; here errors
become exits."""

import gc
from importlib import import_module
from typing import Annotated, Any

import typer
from rich.markup import escape
from typer.core import TyperCommand

from ..schemas import BusError, InputError, KernelswarmError, StoreError
from ..sessions.interrupts import EXIT_INTERRUPTED
from .connecting import connecting
from .display.terminal import configure_logging, err
from .groups import epilog
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
COMMANDS = {
    "optimize": "Search for a faster kernel for a PyTorch operator, and write it down as a drop-in file.",
    "fork": "Open a new session that goes on from a node of another one, with another budget, policy, model or pool.",
    "evaluate": "Judge kernels: verdict, reason, speedup. Exit status 0 only if all of them are correct.",
    "time": "Time a finished file as your own program would see it. Exit status 1 if that cannot be done, or it is "
    "wrong.",
    "compile": "Compile a candidate: messages, registers, spills, shared memory. Exit status 1 if it does not compile.",
    "swarm": "Join workers to a pool; they serve every session of the pool until Ctrl-C, which hands their work back.",
    "mcp": "Serve tasks to coding agents over MCP: claim, check, submit, leaderboard, knowledge, history.",
    "record": "Write every event of a cluster into the log under KERNELSWARM_HOME, and answer `sql` from any host.",
    "pools": "List the hardware pools and what was measured of this machine; with --live, who serves them now.",
    "models": "Show which models can be asked here: keys, servers, prices, and what this log says each has won.",
    "doctor": "Look at what a search needs here, and say what to do about the rest. Exit status 1 if no search would "
    "run.",
    "sessions": "List sessions, newest first.",
    "show": "Show a session: problem, baselines, graph, best. With --node: plan, candidate, timings, diagnoses.",
    "lineage": "Show the way to a node: each step's operation, what changed, what was measured, and why.",
    "diff": "Compare two sessions: what was asked, the first decision in which they part, what each found and "
    "how soon.",
    "replay": "Feed a recorded session to fresh agents: every decision must be the recorded one. Needs no device, "
    "no network.",
    "resume": "Go on with an open session where it was: what was done is kept, what was under way is done again.",
    "sql": "Ask the log in SQL.",
    "export": "Export the log into a folder, without secrets: rewards are measured speedups, 0 if wrong.",
    "log": "The log: where it is, whether it is what was written, copies of it, its latest events.",
    "bench": "Public benchmarks, run from your own checkout of them.",
    "knowledge": "What authors that are models look up: search and read it, add the manuals of a chip.",
    "tasks": "Tasks for coding agents and people outside: claim one, write a kernel, check it, hand it in. "
    "docs/agents.md says how; `tasks brief` prints the page for an agent.",
}
"""Modules of :mod:`.commands`, and the first sentences of their help: to list them takes no import of theirs."""

SEARCHING = ("optimize", "fork", "resume")
EXIT_STATUSES = (
    "[bold]Exit status[/]",
    "0 done, also without a win · 1 the reference died: nothing could be judged · 2 bad input · "
    "3 nothing could be tried: not one candidate was made · 130 interrupted",
)


class _Deferred(TyperCommand):
    """Stands for a command whose module is imported when the command is called, completed or asked for its help."""

    def make_context(self, *args: Any, **extra: Any) -> Any:
        return command(self.name or "").make_context(*args, **extra)


def command(name: str) -> Any:
    """The command, or the group of commands, that its module defines."""
    module = import_module(f".commands.{name}", __package__)
    if not gc.isenabled():
        gc.freeze()
        gc.enable()
    if hasattr(module, "app"):
        return typer.main.get_group(module.app)
    statuses = EXIT_STATUSES if name in SEARCHING else ()
    single = typer.Typer(add_completion=False, rich_markup_mode=app.rich_markup_mode)
    single.command(name, epilog=epilog(module.EXAMPLES, statuses))(connecting(getattr(module, name)))
    return typer.main.get_command(single)


def _deferred() -> None:
    """Has no parameters: the command that it stands for has its own."""


for name, summary in COMMANDS.items():
    app.command(name, cls=_Deferred, help=summary)(_deferred)


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
    program = typer.main.get_command(app)
    try:
        status = program.main(arguments or ["--help"], prog_name="kernelswarm", standalone_mode=False)
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
