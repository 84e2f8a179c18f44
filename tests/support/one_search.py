"""A search to be killed: says its session's id, then that it has got somewhere, and goes on."""

import asyncio
import sys
from pathlib import Path

import given
from kernelswarm.hardware.sources.problem_files import load_problem
from kernelswarm.schemas import NodeDiagnosed
from kernelswarm.sessions.search import searching
from kernelswarm.sessions.search_options import SearchOptions


async def search(home: Path) -> None:
    (home / "rmsnorm.py").write_text(given.SOURCE)
    options = SearchOptions(budget=5, seed=7)
    async with searching(load_problem(home / "rmsnorm.py"), "bare", options, home=home) as running:
        print(running.session, flush=True)
        async for _, event in running.events():
            if isinstance(event, NodeDiagnosed):
                print("enough", flush=True)


if __name__ == "__main__":
    asyncio.run(search(Path(sys.argv[1])))
