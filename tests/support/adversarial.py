"""The command line that judges the kernels of the adversarial suite."""

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import brief
from cheats import SUITES

POOLS = {
    "cpu": """
platform = "cpu"
languages = ["cpp"]
threads = 2
baselines = ["eager"]
candidate_seconds = 10.0
candidate_memory_bytes = 4294967296
""",
    "gpu": """
platform = "nvidia"
languages = ["triton", "cuda"]
baselines = ["eager"]
candidate_seconds = 30.0
""",
}
"""A user's own pools: compiling baselines would cost minutes, and waiting for an endless loop a minute."""

MOST_SECONDS = 900.0

WHOLE = ("-m", "kernelswarm.cli")
JUDGED = (brief.__file__,)
"""The same judge; what follows its verdict is brief, and nobody asks for it here."""


class Judge:
    """The command line, with a home of its own."""

    def __init__(self, home: Path, kernels: Mapping[str, Iterable[str]] | None = None) -> None:
        """``kernels``: names of the kernels to judge, by suite; by default all."""
        self._home = home
        self._kernels = kernels
        (home / "pools").mkdir()
        for name, text in POOLS.items():
            (home / "pools" / f"{name}.toml").write_text(text)
        self.evaluations = cache(self._verdicts)

    def evaluate(
        self, problem: Path, *candidates: Path, pool: str = "cpu", program: tuple[str, ...] = WHOLE
    ) -> subprocess.CompletedProcess[str]:
        """``kernelswarm evaluate PROBLEM CANDIDATE... --json``."""
        environment = {"KERNELSWARM_HOME": str(self._home), "KERNELSWARM_NATS": "", "BRIEF": "after-judging"}
        return subprocess.run(
            [sys.executable, *program, "evaluate", problem, *candidates, "--pool", pool, "--json"],
            capture_output=True,
            text=True,
            env={**os.environ, **environment},
            timeout=MOST_SECONDS,
            check=False,
        )

    def _verdicts(self, suite: str) -> list[dict[str, Any]]:
        """What was said of each kernel of a suite, in its order."""
        spec, order = SUITES[suite], self.order(suite)
        done = self.evaluate(spec.problem, *map(spec.path, order), pool=spec.pool, program=JUDGED)
        verdicts = [json.loads(line) for line in done.stdout.splitlines()]
        assert [Path(verdict["candidate"]).stem for verdict in verdicts] == order, done.stderr
        assert done.returncode == int(not all(verdict["correct"] for verdict in verdicts)), done.stderr
        return verdicts

    def order(self, suite: str) -> list[str]:
        """Names of the kernels of a suite that are judged, in this order.

        One that stands there again, because it follows another attack, is judged again if that attack is judged.
        """
        spec = SUITES[suite]
        chosen = spec.order if self._kernels is None else {*spec.always, *self._kernels.get(suite, ())}
        names: list[str] = []
        for previous, name in pairwise(("", *spec.order)):
            if name in chosen and (previous in chosen or name not in names):
                names.append(name)
        return names

    def of(self, suite: str, kernel: str) -> list[dict[str, Any]]:
        """What was said of a kernel, each time that it was judged."""
        return [
            verdict for verdict, name in zip(self.evaluations(suite), self.order(suite), strict=True) if name == kernel
        ]
