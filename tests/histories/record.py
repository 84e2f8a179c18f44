"""Records histories with the version that is checked out: real searches on this machine, one file each.

    python tests/histories/record.py [NAME…] [--out DIR] [--label v1]

Run it when an event gets a new version or a policy changes on purpose, with a label of its own; keep the old files.
"""

import argparse
import asyncio
import os
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "support"))

import histories  # noqa: E402
from model_server import model_server  # noqa: E402
from scripted_models import Models  # noqa: E402

import given  # noqa: E402
import kernelswarm  # noqa: E402
from kernelswarm.hardware.sources.problem_files import load_problem  # noqa: E402
from kernelswarm.schemas import CandidateProfiled, Event, NodeDiagnosed  # noqa: E402
from kernelswarm.sessions.outside.client import OutsideAuthor  # noqa: E402
from kernelswarm.sessions.resume import resuming  # noqa: E402
from kernelswarm.sessions.search import searching  # noqa: E402
from kernelswarm.sessions.search_options import SearchOptions  # noqa: E402
from kernelswarm.store import read_recorded  # noqa: E402

POOL = 'name = "bare"\nplatform = "cpu"\nlanguages = ["cpp"]\nbaselines = ["eager"]\n'
"""Timed against eager alone: a history shows decisions, not speed."""
GPU_POOL = 'name = "gpu"\nplatform = "nvidia"\nlanguages = ["triton"]\nbaselines = ["eager", "compile"]\n'

RIGHT = "import torch\ndef kernel(x, w):\n    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w\n"
GIVEN = (
    RIGHT,
    "import torch\ndef kernel(x, w):\n    return torch.zeros_like(x)\n",
    "import os\ndef kernel(x, w):\n    os.kill(os.getpid(), 11)\n",
    "def kernel(x, w):\n    raise ValueError('no')\n",
    "def kernel(x, w)\n",
    "def another(x, w):\n    return x\n",
)

Stop = Callable[[Event], str]
"""Names the reason to stop the search for, after an event; empty to go on."""


async def search(home: Path, options: SearchOptions, stop: Stop = lambda _: "", pool: str = "bare") -> str:
    """Search to the end, or to where it is stopped; the session's id."""
    async with searching(load_problem(home / "rmsnorm.py"), pool, options, home=home) as running:
        asked = False
        async for _, event in running.events():
            if not asked and (reason := stop(event)):
                asked = True
                await running.stop(reason)
        return running.session


async def budget(home: Path) -> str:
    """Drafts, improvements, finalists, a skill."""
    return await search(home, SearchOptions(budget=8, seed=3))


async def gpu(home: Path) -> str:
    """On an NVIDIA GPU: drafts in Triton, a compiled baseline, what profilers saw, finalists."""
    return await search(home, SearchOptions(budget=8, seed=3), pool="gpu")


async def failures(home: Path) -> str:
    """Candidates that are wrong, crash, raise, do not parse and do not load, beside a right one."""
    return await search(home, SearchOptions(budget=len(GIVEN), synthesizer="given", candidates=GIVEN))


async def interrupted(home: Path) -> str:
    """The user had enough after the first timing."""
    return await search(
        home, SearchOptions(budget=40, seed=5), lambda event: "interrupted" * isinstance(event, CandidateProfiled)
    )


async def minutes(home: Path) -> str:
    """The time was up while candidates were under way: they are finished and confirmed."""
    return await search(
        home, SearchOptions(budget=40, seed=6), lambda event: "minutes" * isinstance(event, NodeDiagnosed)
    )


async def killed(home: Path) -> str:
    """Cut off in the middle: the history has no end."""
    command = [sys.executable, __file__, "--until-killed", str(home)]
    child = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert child.stdout is not None
    session = (await child.stdout.readline()).decode().strip()
    await child.stdout.readline()
    child.kill()
    await child.wait()
    return session


async def forked(home: Path) -> tuple[str, ...]:
    """A search, a fork at one of its nodes, and a fork of that fork: each reads through to where it came from."""
    first = await search(home, SearchOptions(budget=4, seed=8))
    # From outside of this loop, as a user would.
    second = await asyncio.to_thread(kernelswarm.fork, first, node="n002", budget=3, home=home)
    third = await asyncio.to_thread(kernelswarm.fork, second, node=second.result.best, budget=3, home=home)
    return first, second.session, third.session


async def outside(home: Path) -> str:
    """Two agents work a session: a race, checks, a lease that expires, late, double and released tasks, a resume."""
    options = SearchOptions(budget=4, seed=9, synthesizer="outside")
    async with searching(load_problem(home / "rmsnorm.py"), "bare", options, home=home) as running:
        alice, bob = (OutsideAuthor(running._bus, home, name) for name in ("alice", "bob"))
        first, second = await asyncio.gather(*(agent.claim(running.session, wait_s=60) for agent in (alice, bob)))
        assert first.lease and second.lease
        await alice.check(first.lease.lease, GIVEN[1])
        await alice.submit(first.lease.lease, RIGHT, "as the reference", wait_s=600)
        await bob.submit(second.lease.lease, RIGHT)  # the same file: refused
        lapsed = await alice.claim(running.session, minutes=0.005)
        assert lapsed.lease
        await alice.claim(lapsed.task, wait_s=60)
    async with resuming(running.session, home=home) as running:
        alice, bob = (OutsideAuthor(running._bus, home, name) for name in ("alice", "bob"))
        await bob.submit(second.lease.lease, GIVEN[1], wait_s=600)
        await alice.release(f"{lapsed.task}/2")
        await alice.submit(lapsed.lease.lease, RIGHT + "# late\n", wait_s=600)
        last = await bob.claim(running.session, wait_s=60)
        assert last.lease
        await running.stop("minutes")
        await bob.submit(last.lease.lease, RIGHT + "# last\n", wait_s=600)
        async for _ in running.events():
            pass
    return running.session


async def finished(home: Path) -> str:
    """Generator and an outside author, who says that nothing more comes while a task is held; a cautious session."""
    options = SearchOptions(budget=8, seed=3, synthesizer="generator,outside")
    async with searching(load_problem(home / "rmsnorm.py"), "bare", options, home=home) as running:
        alice = OutsideAuthor(running._bus, home, "alice")
        first = await alice.claim(running.session, wait_s=60)
        assert first.lease
        await alice.submit(first.lease.lease, RIGHT, "as the reference", wait_s=600)
        last = await alice.claim(running.session, wait_s=60)
        assert last.lease
        await alice.finish(running.session)
        await alice.release(last.lease.lease)
        async for _ in running.events():
            pass
    return running.session


async def awaited(home: Path) -> str:
    """The target is reached while an author holds a task and one is free: what is held is judged all the same."""
    options = SearchOptions(budget=3, seed=3, synthesizer="outside", target=0.01)
    async with searching(load_problem(home / "rmsnorm.py"), "bare", options, home=home) as running:
        alice = OutsideAuthor(running._bus, home, "alice")
        first, second = [await alice.claim(running.session, wait_s=60) for _ in range(2)]
        assert first.lease and second.lease
        await alice.submit(first.lease.lease, RIGHT, "as the reference", wait_s=600)
        await alice.submit(second.lease.lease, RIGHT + "# another\n", wait_s=600)
        async for _ in running.events():
            pass
    return running.session


async def models(home: Path) -> str:
    """Two authors that ask models beside the generator: tools, both sub-agents, roles by model, faults, a refusal."""
    names = "anthropic=claude-opus-5-5,openai=gpt-6.1-sol,deep_search=anthropic:claude-haiku-4-5"
    names += ",context_memory=openai:gpt-6.1-mini,analyst=openai:gpt-6.1-mini,planner=anthropic:claude-haiku-4-5"
    names += ",distiller=anthropic:claude-haiku-4-5"
    options = SearchOptions(
        budget=18,
        seed=4,
        policy_options={"width": 2},
        synthesizer="generator,anthropic:2,openai:2",
        model=names,
        max_cost=20.0,
    )
    async with model_server() as server:
        server.answer = Models()
        served = {"ANTHROPIC": server.url, "OPENAI": f"{server.url}/v1"}
        os.environ.update({f"{vendor}_BASE_URL": url for vendor, url in served.items()})
        os.environ.update({f"{vendor}_API_KEY": "no-key-of-anybody" for vendor in served})
        return await search(home, options)


async def until_killed(home: Path) -> None:
    """Say the session's id, then that it has got far enough."""
    options = SearchOptions(budget=12, seed=7)
    async with searching(load_problem(home / "rmsnorm.py"), "bare", options, home=home) as running:
        print(running.session, flush=True)
        count = 0
        async for _, event in running.events():
            count += isinstance(event, NodeDiagnosed)
            if count == 5:
                print("enough", flush=True)


SCENARIOS: dict[str, Callable[[Path], Awaitable[str | tuple[str, ...]]]] = {
    scenario.__name__: scenario
    for scenario in (budget, failures, interrupted, minutes, killed, forked, outside, finished, awaited, models, gpu)
}
ON_REQUEST = {gpu.__name__}
"""What not every machine can record."""


async def record(name: str, path: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="history-") as folder:
        home = Path(folder)
        (home / "pools").mkdir()
        (home / "pools" / "bare.toml").write_text(POOL)
        (home / "pools" / "gpu.toml").write_text(GPU_POOL)
        (home / "rmsnorm.py").write_text(given.SOURCE)
        sessions = await SCENARIOS[name](home)
        family = (sessions,) if isinstance(sessions, str) else sessions
        events = [envelope for session in family for _, envelope in await read_recorded(home, session)]
        histories.write(path, events)
        print(f"{path}: {len(events)} events")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help=f"of {', '.join(SCENARIOS)}; by default all but {', '.join(ON_REQUEST)}",
    )
    parser.add_argument("--out", type=Path, default=histories.FOLDER)
    parser.add_argument("--label", default="v1", help="put in front of the file's name")
    parser.add_argument("--until-killed", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.until_killed:
        asyncio.run(until_killed(options.until_killed))
        return
    if unknown := set(options.names) - set(SCENARIOS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    for name in options.names or [name for name in SCENARIOS if name not in ON_REQUEST]:
        asyncio.run(record(name, options.out / f"{options.label}-{name}{histories.SUFFIX}"))


if __name__ == "__main__":
    main()
