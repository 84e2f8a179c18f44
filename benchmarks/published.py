"""Kernels that others published: the judge's verdict and speedup beside what running them by hand gives.

Kernels and problems come from a folder of the user's, ``FOLDER/NAME/problem.py`` (KernelBench's format: ``Model``,
``get_inputs``, ``get_init_inputs``) with the published files beside it (``ModelNew``), unchanged. Nothing of theirs is
kept here but the row: what each file is, both verdicts, both speedups over eager.

By hand means what KernelBench's users do: one process, both modules built after the same seed, outputs compared with a
tolerance of a hundredth on three inputs, Triton's ``do_bench`` for the device and calls in a row for the program. A
looser tolerance than the judge's, so a kernel may be right by hand and not for the judge; the row has the reason.

Both run at once, and hold the pool's lease while they compute: neither times the other. The judge's pool has eager as
its only baseline. This process serves the bus of all, so that none ends with another.
"""

import argparse
import asyncio
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from _shared import RESULTS, WORKSPACE, command, geometric_mean, machine, now, save, table, versions

from kernelswarm.hardware.machine.lease import Lease
from kernelswarm.hardware.machine.nvml import find_devices
from kernelswarm.hardware.pools.pool_files import find_pool
from kernelswarm.schemas import Pool
from kernelswarm.sessions.connection import joined_bus

HEADER = ("kernel", "by hand", "judge", "by hand, device", "judge, device", "by hand, call", "judge, call", "reason")
TOLERANCE = 1e-2
"""KernelBench's, absolute and relative."""
LIMIT_S = 1800
EXAMPLES = """
examples:
  python benchmarks/published.py ~/published --pool h200 --jobs 6
  python benchmarks/published.py ~/published --only l1_19_relu,softmax --json
"""

Row = dict[str, Any]


def pairs(folder: Path, only: str) -> list[tuple[str, Path, Path]]:
    """Every published file with its problem, by ``NAME/FILE``."""
    names = set(filter(None, only.split(",")))
    return [
        (f"{kernel.parent.name}/{kernel.stem}", kernel.parent / "problem.py", kernel)
        for kernel in sorted(folder.glob("*/*.py"))
        if kernel.name != "problem.py" and (not names or kernel.parent.name in names)
    ]


async def run(options: argparse.Namespace, content: Row) -> None:
    """What has no row yet. The file is written after each."""
    rows: dict[str, Row] = content["rows"]

    async def every(key: str, part: Any) -> None:
        places = asyncio.Semaphore(options.jobs)

        async def work(problem: Path, kernels: list[tuple[str, Path]]) -> None:
            async with places:
                async for name, more in part(options, problem, kernels):
                    row = rows.setdefault(name, {"kernel": name})
                    row |= more
                    content.update(totals(list(rows.values())))
                    save(options.kept, content)
                    print(f"{name}: {json.dumps(row)}", file=sys.stderr)

        waiting: dict[Path, list[tuple[str, Path]]] = {}
        for name, problem, kernel in pairs(options.folder, options.only):
            if key not in rows.get(name, {}):
                waiting.setdefault(problem, []).append((name, kernel))
        # Files of one problem are judged one after the other: the longest rows first.
        order = sorted(waiting.items(), key=lambda item: -len(item[1]))
        await asyncio.gather(*(work(*item) for item in order))

    async with joined_bus(options.home):
        await asyncio.gather(every("judge", _judged), every("hand", _by_hand))
    content["rows"] = dict(sorted(rows.items()))
    save(options.kept, content)


def eager_only(name: str, home: Path) -> str:
    """A pool of ``home`` that is as the one called ``name``, but for its baselines."""
    pool = find_pool(name, home)
    path = home / "pools" / f"{name}-eager.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    values = {"platform": pool.platform, "languages": pool.languages, "target": pool.target, "baselines": ["eager"]}
    path.write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items()), encoding="utf-8")
    return path.stem


async def _judged(
    options: argparse.Namespace, problem: Path, kernels: list[tuple[str, Path]]
) -> AsyncIterator[tuple[str, Row]]:
    """What ``kernelswarm evaluate`` says of each, in one run: they share baselines."""
    started = time.monotonic()
    files = [str(path) for _, path in kernels]
    status, printed, errors = await _output(
        (command(), "evaluate", str(problem), *files, "--pool", options.eager, "--no-profile", "--json"),
        {**os.environ, "KERNELSWARM_HOME": str(options.home)},
    )
    seconds = round((time.monotonic() - started) / len(kernels), 1)
    results = {judged["candidate"]: judged for judged in map(json.loads, filter(None, printed.splitlines()))}
    for name, path in kernels:
        judged = results.get(str(path))
        row = _row(judged) if judged else {"judge": "none", "reason": errors.strip()[-400:] or f"status {status}"}
        yield name, {**row, "judge_s": seconds}


def _row(judged: Row) -> Row:
    device, call = judged.get("device") or {}, judged.get("call") or judged.get("ordinary") or {}
    return {
        "judge": judged["verdict"],
        "reason": judged["reason"] or judged.get("ordinary_missing") or "",
        "limits": judged.get("limits") or [],
        "judge_device": _over_eager(device) if device else _over_eager({"times_ms": judged.get("times_ms") or {}}),
        "judge_call": _over_eager(call),
    }


def _over_eager(number: Row) -> float | None:
    times = number.get("times_ms") or {}
    return times["eager"] / times["candidate"] if times.get("eager") and times.get("candidate") else None


async def _by_hand(
    options: argparse.Namespace, problem: Path, kernels: list[tuple[str, Path]]
) -> AsyncIterator[tuple[str, Row]]:
    """The same files as KernelBench's users run them, each in a process of its own, with caches of its own."""
    for name, kernel in kernels:
        yield name, await _alone_by_hand(options, problem, kernel)


async def _alone_by_hand(options: argparse.Namespace, problem: Path, kernel: Path) -> Row:
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "TORCH_EXTENSIONS_DIR": folder, "TRITON_CACHE_DIR": folder + "/triton"}
        arguments = (sys.executable, __file__, "--by-hand", str(problem), str(kernel), str(options.home), options.eager)
        _, printed, errors = await _output(arguments, environment)
    lines = [line for line in printed.splitlines() if line.startswith("{")]
    if not lines:
        return {"hand": "none", "hand_reason": errors.strip()[-400:]}
    row: Row = json.loads(lines[-1])
    return row


async def _output(arguments: tuple[str, ...], environment: dict[str, str]) -> tuple[int, str, str]:
    process = await asyncio.create_subprocess_exec(
        *arguments, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        printed, errors = await asyncio.wait_for(process.communicate(), LIMIT_S)
    except TimeoutError:
        process.kill()
        await process.wait()
        return 124, "", f"longer than {LIMIT_S} s"
    return process.returncode or 0, printed.decode(), errors.decode(errors="replace")


async def by_hand(problem: Path, kernel: Path, home: Path, pool: Pool) -> Row:
    """Compare and time in this process."""
    # The files are imported first: what they compile there holds up nobody.
    theirs, ours = _module("problem", problem), _module("published", kernel)
    devices = find_devices().accelerators if pool.platform == "nvidia" else ()
    async with Lease(pool, home, devices[0].uuid if devices else "").exclusive():
        return _compared(theirs, ours, "cuda" if devices else "cpu")


def _compared(theirs: Any, ours: Any, device: str) -> Row:
    import torch

    def made(kind: Any) -> Any:
        torch.manual_seed(42)
        arguments = theirs.get_init_inputs()
        torch.manual_seed(42)
        return kind(*arguments).to(device)

    reference, published = made(theirs.Model), made(ours.ModelNew)
    right = True
    with torch.no_grad():
        for seed in (42, 43, 44):
            torch.manual_seed(seed)
            inputs = [value.to(device) if isinstance(value, torch.Tensor) else value for value in theirs.get_inputs()]
            expected, got = reference(*inputs), published(*inputs)
            same = isinstance(got, torch.Tensor) and got.shape == expected.shape
            right = right and same and torch.allclose(expected, got, atol=TOLERANCE, rtol=TOLERANCE)
        times = {name: _times(model, inputs) for name, model in (("eager", reference), ("candidate", published))}
    device_ratio, call_ratio = (times["eager"][k] / times["candidate"][k] for k in (0, 1))
    return {"hand": "right" if right else "wrong", "hand_device": device_ratio, "hand_call": call_ratio}


def _times(model: Any, inputs: list[Any]) -> tuple[float, float]:
    """Milliseconds by ``do_bench`` (calls on a processor), and of one of many calls in a row."""
    import torch

    wait = torch.cuda.synchronize if torch.cuda.is_available() else lambda: None
    for _ in range(5):
        model(*inputs)
    wait()
    started = time.perf_counter()
    count = 0
    while count < 10 or time.perf_counter() - started < 0.2:
        for _ in range(10):
            model(*inputs)
        wait()
        count += 10
    call = (time.perf_counter() - started) / count * 1e3
    if not torch.cuda.is_available():
        return call, call
    from triton.testing import do_bench

    return float(do_bench(lambda: model(*inputs), return_mode="median")), call


def _module(name: str, path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def totals(rows: list[Row]) -> Row:
    """How many got a verdict, how often both say the same, and how far apart the speedups are."""
    judged = [row for row in rows if row.get("judge", "none") != "none"]
    same = [row for row in judged if (row["judge"] == "correct") == (row.get("hand") == "right")]
    ratios = {
        name: [row[f"judge_{name}"] / row[f"hand_{name}"] for row in judged if _both(row, name)]
        for name in ("device", "call")
    }
    means = {f"{name}_judge_over_hand": geometric_mean(values) for name, values in ratios.items() if values}
    return {"kernels": len(rows), "judged": len(judged), "same_verdict": len(same), **means}


def _both(row: Row, name: str) -> bool:
    return bool(row.get("judge") == "correct" and row.get(f"judge_{name}") and row.get(f"hand_{name}"))


def shown(row: Row) -> tuple[str, ...]:
    """A line of the table."""
    numbers = (row.get(key) for key in ("hand_device", "judge_device", "hand_call", "judge_call"))
    words = (*map("{} inputs alone".format, row.get("limits") or ()), row.get("reason") or row.get("hand_reason") or "")
    reason = " ".join("; ".join(filter(None, words)).split())[:80]
    return (
        *(str(row.get(key, "none")) for key in ("kernel", "hand", "judge")),
        *(f"{number:.2f}x" if number else "" for number in numbers),
        reason,
    )


def main() -> int:
    """Parse, run, print."""
    if sys.argv[1:2] == ["--by-hand"]:
        problem, kernel, home = map(Path, sys.argv[2:5])
        print(json.dumps(asyncio.run(by_hand(problem, kernel, home, find_pool(sys.argv[5], home)))))
        return 0
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="NAME/problem.py and the published files beside it")
    parser.add_argument("--pool", default="cpu", help="hardware pool")
    parser.add_argument("--only", default="", help="names of folders, separated by commas")
    parser.add_argument("--jobs", type=int, default=1, help="files at a time; timing takes turns all the same")
    parser.add_argument("--home", type=Path, default=WORKSPACE / "published", help="home of the sessions")
    parser.add_argument("--kept", type=Path, help="the file that rows are kept in")
    parser.add_argument("--fresh", action="store_true", help="forget the rows that were kept")
    parser.add_argument("--json", action="store_true", help="print one object instead of the table")
    options = parser.parse_args()
    options.kept = options.kept or RESULTS / f"published_{options.pool}.json"
    options.home.mkdir(parents=True, exist_ok=True)
    options.eager = eager_only(options.pool, options.home)
    content: Row = {"benchmark": "published", "date": now(), "versions": versions(), "machine": machine(), "rows": {}}
    if options.kept.exists() and not options.fresh:
        content = json.loads(options.kept.read_text(encoding="utf-8"))
    asyncio.run(run(options, content))
    if options.json:
        print(json.dumps(content))
        return 0
    print(table(HEADER, [shown(row) for row in content["rows"].values()]))
    figures = {key: content[key] for key in content if key not in ("rows", "machine", "versions")}
    print(json.dumps(figures))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
