"""``kernelswarm``: the command line. Commands stand in files of their own; here errors become exits."""

import os
import sys
from typing import Annotated

import typer
from click.exceptions import Abort, ClickException

from ..schemas import BusError, InputError, KernelswarmError, StoreError
from . import doctor, evaluate, optimize, pools, record, sessions, show, sql, swarm
from .terminal import configure_logging, err

EXIT_NO = 1
EXIT_BAD_INPUT = 2
EXIT_INTERRUPTED = 130

app = typer.Typer(
    name="kernelswarm",
    help="Find faster kernels with a swarm of agents; every number can be replayed and asked about.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
for module in (optimize, evaluate, swarm, record, pools, doctor, sessions, show, sql):
    name = module.__name__.rpartition(".")[2]
    examples = "\n\n".join(["[bold]Examples[/]", *module.EXAMPLES])
    app.command(name, epilog=examples)(getattr(module, name))


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        typer.echo(f"kernelswarm {version('kernelswarm')}")
        raise typer.Exit


@app.callback()
def _main(
    verbose: Annotated[int, typer.Option("--verbose", "-v", count=True, help="Say more; twice for everything.")] = 0,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    configure_logging(verbose)


def main() -> None:
    """Run a command; exit 0 done, 1 it ran and the answer is no, 2 bad input, 130 interrupted."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run the command line and return its exit status."""
    try:
        status = app(arguments, standalone_mode=False)
    except ClickException as error:
        error.show()
        return error.exit_code
    except (InputError, BusError, StoreError) as error:
        return _say(error, EXIT_BAD_INPUT)
    except KernelswarmError as error:
        return _say(error, EXIT_NO)
    except (KeyboardInterrupt, Abort):
        err.print("interrupted")
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader of our output went away (`| head`): nothing is wrong with us.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return status if isinstance(status, int) else 0


def _say(error: KernelswarmError, status: int) -> int:
    err.print(f"[bold red]error[/]: {_escaped(str(error))}")
    return status


def _escaped(text: str) -> str:
    from rich.markup import escape

    return escape(text)
