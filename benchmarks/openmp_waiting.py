"""How should OpenMP's threads wait in the harness? Times of small programs by setting, as a share of the default's.

Each program runs in a process for each setting; the processes are timed in turns with pauses in which all threads fall
asleep, and once more without pauses, each beside a process of the same setting that was timed just before.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from _shared import RESULTS, machine, now, save, table, versions

SETTINGS: dict[str, dict[str, str]] = {
    "default": {},
    "passive": {"OMP_WAIT_POLICY": "passive"},
    **{f"spin {count}": {"GOMP_SPINCOUNT": str(count)} for count in (1000, 10000, 30000, 100000)},
}
BATCH_NS, WARM_NS, PAUSE_SECONDS = 2_000_000, 500_000, 0.02


def programs() -> dict[str, Callable[[], Any]]:
    """Eager programs with many small regions, and with one large."""
    import torch
    from _ordinary_problems import PROBLEMS

    def program(name: str) -> Callable[[], Any]:
        names: dict[str, Any] = {}
        exec(PROBLEMS[name], names)
        model, inputs = names["Model"](), names["get_inputs"]()
        return lambda: model(*inputs)

    torch.set_grad_enabled(False)
    left, right = torch.randn(768, 768), torch.randn(768, 768)
    small = ("gru", "moe_router", "se_block", "residual_block", "masked_softmax", "rms_norm_gate")
    return {name: program(name) for name in small} | {"matrix product": lambda: left @ right}


NAMES = ("gru", "moe_router", "se_block", "residual_block", "masked_softmax", "rms_norm_gate", "matrix product")


def serve(name: str) -> None:
    """Time batches as they are asked for: calls, and untimed calls before."""
    call = programs()[name]
    print(flush=True)
    for line in sys.stdin:
        calls, warm = map(int, line.split())
        for _ in range(warm):
            call()
        began = time.perf_counter_ns()
        for _ in range(calls):
            call()
        print(time.perf_counter_ns() - began, flush=True)


class Process:
    """One program under one setting."""

    def __init__(self, name: str, setting: str) -> None:
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("OMP_", "GOMP_"))}
        command = [sys.executable, __file__, "--serve", name]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**kept, **SETTINGS[setting]}
        )
        self._read()

    def ns(self, calls: int, warm: int) -> float:
        """Of one call, nanoseconds."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{calls} {warm}\n")
        self._process.stdin.flush()
        return int(self._read()) / calls

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.communicate()

    def _read(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()


def measured(name: str, rounds: int) -> dict[str, Any]:
    """Medians by setting: with pauses between the turns, and at once after another process."""
    first = {setting: Process(name, setting) for setting in SETTINGS}
    second = {setting: Process(name, setting) for setting in SETTINGS}
    ns = min(first["default"].ns(5, 5) for _ in range(3))
    calls, warm = max(1, round(BATCH_NS / ns)), max(1, round(WARM_NS / ns))
    paused: dict[str, list[float]] = {setting: [] for setting in SETTINGS}
    at_once: dict[str, list[float]] = {setting: [] for setting in SETTINGS}
    for _ in range(rounds):
        for setting in SETTINGS:
            time.sleep(PAUSE_SECONDS)
            paused[setting].append(first[setting].ns(calls, warm))
            second[setting].ns(calls, warm)
            at_once[setting].append(first[setting].ns(calls, warm))
    for process in (*first.values(), *second.values()):
        process.close()
    return {
        "program": name,
        "paused_us": {setting: statistics.median(samples) / 1e3 for setting, samples in paused.items()},
        "at_once_us": {setting: statistics.median(samples) / 1e3 for setting, samples in at_once.items()},
    }


def main() -> int:
    """Measure, keep, print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--serve", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve)
        return 0
    rows = [measured(name, options.rounds) for name in NAMES]
    save(
        RESULTS / "openmp_waiting.json",
        {"benchmark": "openmp_waiting", "date": now(), "versions": versions(), "machine": machine(), "rows": rows},
    )
    for kind, title in (("paused_us", "after a pause"), ("at_once_us", "at once after another process")):
        lines = [
            (row["program"], *(f"{row[kind][s] / row['paused_us']['default']:.2f}" for s in SETTINGS)) for row in rows
        ]
        print(table((title, *SETTINGS), lines), end="\n\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
