"""``kernelswarm tasks``: work for outside authors. List, claim, check, hand in, give back, end; JSON in and out."""

import asyncio
import functools
import re
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Annotated, Any, TypeVar

import typer

from ...graph.tasks import MINUTES
from ...schemas import InputError, KernelswarmError
from ...sessions.home import kernelswarm_home
from ...sessions.interrupts import Interrupts, run_interruptible
from ...sessions.outside.answers import STARTING
from ...sessions.outside.brief import agent_brief
from ...sessions.outside.client import OutsideAuthor
from ...sessions.outside.joining import AGENT_VARIABLE, NoSearchRuns, Reader, outside_author, session_reader
from ...sessions.outside.records import HandInAnswer
from ..completion import free_tasks, held_leases, open_sessions, task_names
from ..connecting import connecting
from ..display import task_text
from ..display.terminal import err, out, print_json, print_value, write
from ..groups import add_commands, group
from ..options import Json, Nats
from .task_files import Draft, drafts

T = TypeVar("T")

EXIT_NO = 1

_COMMAND_LINE = re.compile(r"`(kernelswarm [^`]+)`")
"""How sentences name a way out."""

WAIT_S = 300.0
"""How long a hand-in waits for its verdict, by default."""

app = group(
    "tasks",
    "Tasks for coding agents and people outside: claim one, write a kernel, check it, hand it in. "
    "docs/agents.md says how; `tasks brief` prints the page for an agent.",
)

Agent = Annotated[
    str,
    typer.Option(
        "--agent", envvar=AGENT_VARIABLE, help="Your name, for people; by default the user's.", show_default=False
    ),
]
Session = Annotated[
    str, typer.Argument(help="Session; without it all that are open.", autocompletion=open_sessions, show_default=False)
]
Task = Annotated[str, typer.Argument(help="SESSION/NODE, or a lease.", autocompletion=task_names)]
Wait = Annotated[float, typer.Option("--wait", min=0.0, help="Seconds to wait for the verdict.")]
Files = Annotated[
    list[str],
    typer.Argument(
        help="LEASE FILE, several pairs too; `-` reads JSON from stdin: {lease, source or file, rationale}, or a list.",
        autocompletion=held_leases,
    ),
]


def list_(session: Session = "", json: Json = False, nats: Nats = "") -> int:
    """List the tasks of open sessions: which are free, who holds which, what became of the others. A session that has
    ended is read out of the log."""
    try:
        rows = (
            _with_reader(nats, lambda reader: reader.tasks(session))
            if session
            else _with_author(nats, "", lambda author: author.tasks())
        )
    except NoSearchRuns as error:
        # That nothing is there to be claimed is an answer.
        err.print(str(error), markup=False)
        rows = []
        if not json:
            return 0
    if json:
        print_json(rows)
        return 0
    if rows:
        task_text.print_tasks(rows)
    else:
        err.print(f"no open session waits for outside authors; {STARTING}", markup=False)
    return 0


def show(task: Task, wait: Wait = 0.0, json: Json = False, nats: Nats = "") -> int:
    """Show a task: its brief while it is open, the verdict on its candidate once there is one. A session that has ended
    is read out of the log."""

    async def ask(reader: Reader) -> int:
        answer = await reader.answer(task, wait_s=wait)
        if answer.state == "waiting":
            print_value(await reader.brief(task), task_text.print_brief, json=json)
        else:
            print_value(answer, task_text.print_answer, json=json)
        return 0

    return _with_reader(nats, ask)


def claim(
    task: Annotated[
        str,
        typer.Argument(
            help="SESSION/NODE; a session, for its newest free task; nothing, for any; a lease, to renew it.",
            autocompletion=free_tasks,
            show_default=False,
        ),
    ] = "",
    count: Annotated[int, typer.Option("--count", "-n", min=1, max=16, help="Tasks to claim.")] = 1,
    minutes: Annotated[float, typer.Option("--minutes", help="How long the lease lasts; it can be renewed.")] = MINUTES,
    wait: Annotated[float, typer.Option("--wait", min=0.0, help="Seconds to wait for a search and a free task.")] = 0.0,
    agent: Agent = "",
    json: Json = False,
    nats: Nats = "",
) -> int:
    """Claim tasks: nobody else gets them until the lease ends. Prints all that is needed to write the kernel."""

    deadline = time.monotonic() + wait

    async def ask(author: OutsideAuthor) -> int:
        for number in range(count):
            # The first has what is left once there was a search; each further one the whole time.
            left = max(0.0, deadline - time.monotonic()) if number == 0 else wait
            print_value(await author.claim(task, minutes=minutes, wait_s=left), task_text.print_brief, json=json)
        return 0

    return _with_author(nats, agent, ask, about=task, wait_s=wait)


def check(files: Files, agent: Agent = "", json: Json = False, nats: Nats = "") -> int:
    """Compile drafts and try them on small inputs, untimed. Exit status 0 only if all are right."""

    async def ask(author: OutsideAuthor) -> int:
        answers = await _each(drafts(files), lambda draft: author.check(draft.lease, draft.source))
        _print_each(answers, task_text.print_check, json=json)
        right = [not isinstance(answer, KernelswarmError) and answer.correct for _, answer in answers]
        return 0 if all(right) else EXIT_NO

    return _with_author(nats, agent, ask, about=files[0])


def submit(
    files: Files,
    rationale: Annotated[
        str, typer.Option("--why", help="Why it should be faster, in a sentence.", show_default=False)
    ] = "",
    wait: Wait = WAIT_S,
    agent: Agent = "",
    json: Json = False,
    nats: Nats = "",
) -> int:
    """Hand candidates in and print the verdicts. Exit status 1 if one is refused or wrong."""

    async def ask(author: OutsideAuthor) -> int:
        async def hand_in(draft: Draft) -> HandInAnswer:
            return await author.submit(draft.lease, draft.source, draft.rationale or rationale, wait_s=wait)

        answers = await _each(drafts(files), hand_in)
        _print_each(answers, task_text.print_hand_in, json=json)
        return 0 if all(_is_well(answer) for _, answer in answers) else EXIT_NO

    return _with_author(nats, agent, ask, about=files[0])


def release(
    leases: Annotated[list[str], typer.Argument(help="Leases to give back.", autocompletion=held_leases)],
    json: Json = False,
    nats: Nats = "",
) -> int:
    """Give tasks back: others may claim them."""

    async def ask(author: OutsideAuthor) -> int:
        released = [await author.release(lease) for lease in leases]
        for given in released:
            print_value(
                given, lambda done: out.print(f"{done.lease}  {done.reason or 'released'}", markup=False), json=json
            )
        return 0 if all(given.released for given in released) else EXIT_NO

    return _with_author(nats, "", ask, about=leases[0])


def finish(
    session: Annotated[str, typer.Argument(help="Session.", autocompletion=open_sessions)],
    wait: Annotated[float, typer.Option("--wait", min=0.0, help="Seconds to wait for the close.")] = 0.0,
    json: Json = False,
    nats: Nats = "",
) -> int:
    """Say that nothing more comes: free tasks are withdrawn, the best is confirmed, and the session closes. What is
    held may still be handed in."""
    finished = _with_reader(nats, lambda reader: reader.finish(session, wait_s=wait))
    print_value(finished, task_text.print_finish, json=json)
    return 0


def leaderboard(
    session: Annotated[str, typer.Argument(help="Session.", autocompletion=open_sessions)],
    json: Json = False,
    nats: Nats = "",
) -> int:
    """Rank a session's candidates, whoever wrote them. A session that has ended is read out of the log."""
    board = _with_reader(nats, lambda reader: reader.leaderboard(session))
    print_value(board, task_text.print_leaderboard, json=json)
    return 0


def brief() -> int:
    """Print the page that a coding agent can be given as its only instruction."""
    write(agent_brief())
    return 0


EXAMPLES: dict[str, tuple[str, ...]] = {
    "list": ("kernelswarm tasks list", "kernelswarm tasks list --json | jq '.[] | select(.state == \"free\").task'"),
    "show": ("kernelswarm tasks show mapid-7kq2m/n003", "kernelswarm tasks show mapid-7kq2m/n003 --wait 120 --json"),
    "claim": (
        "kernelswarm tasks claim                                  # any free task",
        "kernelswarm tasks claim mapid-7kq2m --count 2 --json      # two of one session, one line of JSON each",
        "kernelswarm tasks claim mapid-7kq2m/n003/1 --minutes 60   # renew a lease",
        "kernelswarm tasks claim --wait 600 --agent my-agent",
    ),
    "check": ("kernelswarm tasks check mapid-7kq2m/n003/1 kernel.py",),
    "submit": (
        'kernelswarm tasks submit mapid-7kq2m/n003/1 kernel.py --why "one pass over the rows"',
        "kernelswarm tasks submit mapid-7kq2m/n003/1 a.py mapid-7kq2m/n004/1 b.py --json",
        """echo '{"lease": "mapid-7kq2m/n003/1", "file": "kernel.py"}' | kernelswarm tasks submit - --json""",
    ),
    "release": ("kernelswarm tasks release mapid-7kq2m/n003/1",),
    "finish": ("kernelswarm tasks finish mapid-7kq2m --wait 300",),
    "leaderboard": ("kernelswarm tasks leaderboard mapid-7kq2m", "kernelswarm tasks leaderboard mapid-7kq2m --json"),
    "brief": ("kernelswarm tasks brief > AGENTS.md", 'my-agent "$(kernelswarm tasks brief)"'),
}


def _with_json_errors(command: Callable[..., int]) -> Callable[..., int]:
    """``command``, which with ``--json`` prints what stopped it as one object, beside the sentence on stderr."""

    @functools.wraps(command)
    def answering(*args: Any, **kwargs: Any) -> int:
        try:
            return command(*args, **kwargs)
        except KernelswarmError as error:
            if kwargs.get("json"):
                print_json({"error": str(error), "try": _COMMAND_LINE.findall(str(error))})
            raise

    return answering


_COMMANDS = (list_, show, claim, check, submit, release, finish, leaderboard, brief)
add_commands(app, (connecting(_with_json_errors(command)) for command in _COMMANDS), EXAMPLES)


def _with_author(
    nats: str,
    agent: str,
    work: Callable[[OutsideAuthor], Coroutine[None, None, T]],
    *,
    about: str = "",
    wait_s: float = 0.0,
) -> T:
    def waiting() -> None:
        err.print("no search is running yet; waiting for one", markup=False)

    async def run(interrupts: Interrupts) -> T:
        async with outside_author(
            kernelswarm_home(), nats, agent, about=about, wait_s=wait_s, waiting=waiting
        ) as author:
            return await work(author)

    return run_interruptible(run)


def _with_reader(nats: str, work: Callable[[Reader], Coroutine[None, None, T]]) -> T:
    async def run(interrupts: Interrupts) -> T:
        async with session_reader(kernelswarm_home(), nats) as reader:
            return await work(reader)

    return run_interruptible(run)


async def _each(
    files: Sequence[Draft], work: Callable[[Draft], Awaitable[T]]
) -> list[tuple[Draft, T | KernelswarmError]]:
    """``work`` on all at once; what one is refused for does not end the others.

    Raises:
        InputError: one names nothing; only where it is alone or none could be asked.
    """
    answers = await asyncio.gather(*(work(draft) for draft in files), return_exceptions=True)
    done: list[tuple[Draft, T | KernelswarmError]] = []
    for draft, answer in zip(files, answers, strict=True):
        if isinstance(answer, BaseException) and not isinstance(answer, KernelswarmError):
            raise answer
        if isinstance(answer, InputError) and len(files) == 1:
            raise answer
        done.append((draft, answer))
    return done


def _is_well(answer: HandInAnswer | KernelswarmError) -> bool:
    """Whether a hand-in is right, as far as is known by now."""
    if isinstance(answer, KernelswarmError) or answer.answer is None:
        return False
    return answer.answer.correct or answer.answer.state == "judging"


def _print_each(
    answers: Sequence[tuple[Draft, T | KernelswarmError]], show: Callable[[T], None], *, json: bool
) -> None:
    for draft, answer in answers:
        if not isinstance(answer, KernelswarmError):
            print_value(answer, show, json=json)
        elif json:
            print_json({"lease": draft.lease, "accepted": False, "reason": str(answer)})
        else:
            err.print(f"{draft.lease}  {answer}", markup=False)
