"""Judges the candidate in a file: ``python judged_walled_in.py HOME PROBLEM CANDIDATE``."""

import asyncio
import sys
from pathlib import Path

from conftest import HARDWARE, POOL

from kernelswarm.hardware.device import Device
from kernelswarm.hardware.sources.problem_files import load_problem
from kernelswarm.schemas import Problem, encode


async def judge(home: Path, problem: Problem, source: str) -> None:
    """Print the report."""
    async with Device(POOL, HARDWARE, home, baselines=("eager",), secret="tests") as device:
        report, _ = await device.compile(source, "cpp")
        print(encode(await device.verify(problem, source, report)).decode())


if __name__ == "__main__":
    given = [Path(argument) for argument in sys.argv[1:]]
    asyncio.run(judge(given[0], load_problem(given[1]), given[2].read_text()))
