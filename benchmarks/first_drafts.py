"""The generator's first drafts on KernelBench: device times beside eager and torch.compile, without the judge.

    CUDA_VISIBLE_DEVICES=0 python benchmarks/first_drafts.py CHECKOUT --levels 1,2 --jobs 4

It tells in minutes where drafts lose: no sessions, no private inputs, no intervals. A draft counts whose results are
as near to eager's as the problem's error bound asks for. Problems are kept in the result file and not done again.
Files of several devices become one: ``--join A.json B.json``.
"""

import argparse
import fcntl
import gc
import importlib.util
import json
import math
import multiprocessing
import os
import queue
import random
import signal
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch
from _shared import RESULTS, WORKSPACE, machine, now, save, table, versions

ROUNDS = 5
ROUND_MS = 20.0
DRAIN_S = 0.25
"""What a process has launched on a device goes on for so long once it stands still."""
SLACK = 4.0
"""So many times the error bound a draft's results may be from eager's, which are off as well."""
BACKENDS = {"cuda": "triton", "cpu": "cpp"}


def measured(path: Path, drafts: int, folder: Path) -> dict[str, Any]:
    """One problem: times in milliseconds, and what every draft is.

    Raises:
        Exception: whatever validation refuses it for, or its own code raises.
    """
    row, calls = _prepared(path, drafts, folder)
    with _alone(folder):
        samples = _samples({name: _replayed(call) for name, call in calls.items()})
    row |= {"eager_ms": samples["eager"], "compile_ms": samples["compile"]}
    for number, draft in enumerate(row["drafts"]):
        draft["ms"] = samples.get(str(number))
    return row


def _prepared(path: Path, drafts: int, folder: Path) -> tuple[dict[str, Any], dict[str, Callable[[], Any]]]:
    """What is known before anything is timed, and what is to be."""
    from kernelswarm.hardware.harness.children.problem_validation import validated
    from kernelswarm.hardware.harness.reference.problem import open_reference
    from kernelswarm.hardware.harness.reference_commands import open_command
    from kernelswarm.hardware.sources.problem_files import load_problem

    problem = load_problem(path)
    command = open_command(problem, 0, "first_drafts")
    facts = validated(command).facts
    _free()
    reference = open_reference(command)
    reference.move_to_device()
    inputs = reference.draw("main", 1)
    want = _leaves(reference.call(*inputs))
    reference.restart()
    began = time.monotonic()
    compiled = reference.compiled(None)
    compiled(*inputs)
    calls: dict[str, Callable[[], Any]] = {
        "eager": lambda: reference.call(*inputs),
        "compile": lambda: compiled(*inputs),
    }
    row: dict[str, Any] = {"compile_seconds": round(time.monotonic() - began, 1), "drafts": []}
    for number, (source, why) in enumerate(_drafts(facts, drafts)):
        draft: dict[str, Any] = {"why": why}
        row["drafts"].append(draft)
        try:
            candidate = _loaded(source, folder / f"{path.stem}_{number}.py", reference)
            draft["error"] = _error(_leaves(candidate(*inputs)), want)
        except Exception as error:  # noqa: BLE001 - a draft may fail in any way
            draft["failed"] = f"{type(error).__name__}: {str(error)[:200]}"
            continue
        if draft["error"] <= SLACK * facts.output_bound + 1e-6:
            calls[str(number)] = lambda candidate=candidate: candidate(*inputs)
        else:
            draft["failed"] = f"off by {draft['error']:.1e}, bound {facts.output_bound:.1e}"
    return row, calls


def _drafts(facts: Any, count: int) -> Iterator[tuple[str, str]]:
    from kernelswarm.codegen import Generator, Proposal
    from kernelswarm.hardware.platforms.cpu import detect
    from kernelswarm.hardware.pools.pool_files import find_pool
    from kernelswarm.schemas import Intent, MemoryOperator, NodePlanned

    on_gpu = torch.cuda.is_available()
    hardware = _gpu() if on_gpu else detect(find_pool("cpu", WORKSPACE), WORKSPACE)
    plan = NodePlanned(parent="", intent=Intent.draft, memory=MemoryOperator.clean_slate)
    known: list[Any] = []
    while len(known) < count:
        language = BACKENDS["cuda" if on_gpu else "cpu"]
        proposal = Generator().propose(facts, hardware, plan, None, known, language=language)
        if not isinstance(proposal, Proposal):
            return
        known.append(dict(proposal.config))
        yield proposal.source, proposal.rationale


def _gpu() -> Any:
    from kernelswarm.schemas import HardwareFacts

    return HardwareFacts(
        device=torch.cuda.get_device_name(),
        cores=torch.get_num_threads(),
        isa=("sm_90",),
        vector_bytes=16,
        l2_bytes=50 << 20,
        l3_bytes=0,
        memory_bytes=torch.cuda.mem_get_info()[1],
        copy_gbps=3000.0,
        peak_gflops=60000.0,
    )


def _loaded(source: str, path: Path, reference: Any) -> Callable[..., Any]:
    """Called from a file: Triton reads the text of its kernels there."""
    path.write_text(source, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(f"draft_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    if not hasattr(module, "ModelNew"):
        return module.kernel  # type: ignore[no-any-return]
    model = module.ModelNew().to(next((t.device for t in reference.module.state_dict().values()), "cpu"))
    wanted = model.state_dict().keys()
    model.load_state_dict({n: t.clone() for n, t in reference.module.state_dict().items() if n in wanted})
    return model  # type: ignore[no-any-return]


def _leaves(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    return [leaf for item in value for leaf in _leaves(item)] if isinstance(value, list | tuple) else []


def _error(got: list[torch.Tensor], want: list[torch.Tensor]) -> float:
    if [(g.shape, g.dtype) for g in got] != [(w.shape, w.dtype) for w in want]:
        return math.inf
    pairs = [(g, w) for g, w in zip(got, want, strict=True) if w.is_floating_point()]
    return max((float((g - w).norm() / w.norm().clamp_min(1e-30)) for g, w in pairs), default=0.0)


def _replayed(call: Callable[[], Any]) -> Callable[[], Any]:
    """``call`` as a CUDA graph, where that can be recorded: the device's time, not the launches'."""
    if not torch.cuda.is_available():
        return call
    try:
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            call()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            call()
    except Exception:  # noqa: BLE001 - it is timed call by call, then
        torch.cuda.synchronize()
        return call
    return graph.replay


def _samples(calls: Mapping[str, Callable[[], Any]]) -> dict[str, float]:
    """Median milliseconds of a call, in turns."""
    counts = {name: max(1, min(50, int(ROUND_MS / max(_ms(call, 2), 1e-3)))) for name, call in calls.items()}
    rounds = [{name: _ms(call, counts[name]) for name, call in calls.items()} for _ in range(ROUNDS)]
    return {name: statistics.median(taken[name] for taken in rounds) for name in calls}


def _ms(call: Callable[[], Any], count: int) -> float:
    if not torch.cuda.is_available():
        began = time.perf_counter()
        for _ in range(count):
            call()
        return (time.perf_counter() - began) / count * 1e3
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(count):
        call()
    stop.record()
    torch.cuda.synchronize()
    return float(start.elapsed_time(stop)) / count


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One process at a time, while the others stand still: what they try drafts with would be timed as well."""
    with (folder / "lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        _signal(folder, signal.SIGSTOP)
        try:
            time.sleep(DRAIN_S)
            yield
        finally:
            _signal(folder, signal.SIGCONT)


def _signal(folder: Path, number: signal.Signals) -> None:
    """Send it to the other processes at work in ``folder``."""
    for pid in (int(path.stem) for path in folder.glob("*.pid")):
        if pid != os.getpid():
            with suppress(ProcessLookupError):
                os.kill(pid, number)


def _work(todo: Any, done: Any, drafts: int, folder: Path, threads: int) -> None:
    warnings.simplefilter("ignore")
    torch.set_grad_enabled(False)
    torch.set_num_threads(threads)
    from kernelswarm.hardware.harness.tensors.tensor_placement import set_device

    set_device("cuda:0" if torch.cuda.is_available() else "cpu")
    (folder / f"{os.getpid()}.pid").touch()
    while (path := todo.get()) is not None:
        began = time.monotonic()
        try:
            row = measured(path, drafts, folder)
        except Exception as error:  # noqa: BLE001 - a problem's failure is a row
            row = {"refused": f"{type(error).__name__}: {str(error)[:200]}"}
        done.put((path, {**row, "seconds": round(time.monotonic() - began, 1)}))
        torch._dynamo.reset()
        _free()


def _free() -> None:
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def best_ms(row: Mapping[str, Any]) -> float | None:
    """The fastest draft's time; None where no draft was right."""
    return min((draft["ms"] for draft in row.get("drafts", ()) if draft.get("ms")), default=None)


def speedup(row: Mapping[str, Any]) -> float | None:
    """Of the fastest draft over the faster of eager and torch.compile."""
    best = best_ms(row)
    return min(row["eager_ms"], row["compile_ms"]) / best if best else None


def _report(rows: Mapping[str, Mapping[str, Any]]) -> str:
    cells = []
    for name, row in rows.items():
        ratio = speedup(row)
        times = [f"{row[key]:.3f}" if key in row else "-" for key in ("eager_ms", "compile_ms")]
        best = best_ms(row)
        cells.append((name, *times, f"{best:.3f}" if best else "-", f"{ratio:.2f}" if ratio else "-"))
    return table(("problem", "eager", "compile", "draft", "over the better"), cells)


def main() -> None:
    """Measure, or join result files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path, nargs="?", help="KernelBench, as its repository has it")
    parser.add_argument("--levels", default="1,2", help="by default 1,2")
    parser.add_argument("--only", default="", help="problems by number, as in 1/45,2/91")
    parser.add_argument("--part", default="1/1", help="1/2 does every second problem, 2/2 the others")
    parser.add_argument("--drafts", type=int, default=4, help="drafts of a problem; by default 4")
    parser.add_argument("--jobs", type=int, default=2, help="problems at once; one is timed at a time")
    parser.add_argument("--limit", type=float, default=math.inf, help="seconds after which none is begun")
    parser.add_argument("--results", type=Path, default=RESULTS / "first_drafts.json")
    parser.add_argument("--join", type=Path, nargs="+", help="result files to add to --results")
    arguments = parser.parse_args()
    kept = json.loads(arguments.results.read_text(encoding="utf-8")) if arguments.results.exists() else {"rows": {}}
    if arguments.join:
        for path in arguments.join:
            other = json.loads(path.read_text(encoding="utf-8"))
            kept = {**other, "rows": dict(sorted({**kept["rows"], **other["rows"]}.items(), key=_place))}
        save(arguments.results, kept)
    else:
        device = torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
        facts = {"benchmark": "first_drafts", "date": now(), "device": device}
        kept = {**facts, "versions": versions(), "machine": machine(), "rows": kept["rows"]}
        _measure(arguments, kept)
    print(_report(kept["rows"]))


def _place(item: tuple[str, Any]) -> tuple[int, int]:
    level, _, number = item[0].partition(" ")[0].partition("/")
    return int(level), int(number)


def _measure(arguments: argparse.Namespace, kept: dict[str, Any]) -> None:
    names: dict[Path, str] = {}
    for level in arguments.levels.split(","):
        for path in (arguments.checkout / "KernelBench" / f"level{level}").glob("*.py"):
            number, _, title = path.stem.partition("_")
            names[path] = f"{level}/{number} {title}"
    only = {name for name in arguments.only.split(",") if name}
    ordered = sorted(names, key=lambda path: _place((names[path], None)))
    # Beside each other there stand problems of one kind, all of them large or none.
    random.Random(0).shuffle(ordered)
    part, _, parts = arguments.part.partition("/")
    chosen = [p for p in ordered[int(part) - 1 :: int(parts)] if not only or names[p].partition(" ")[0] in only]
    until = time.monotonic() + arguments.limit
    for jobs in (arguments.jobs, 1):
        # What memory was too small for beside others is done once more by itself.
        left = [path for path in chosen if _is_open(kept["rows"].get(names[path]))]
        for path, row in _rows(left, jobs, arguments.drafts, until):
            kept["rows"][names[path]] = row
            save(arguments.results, kept)
            print(_report({names[path]: row}).splitlines()[-1], row.get("refused", ""), flush=True)


def _is_open(row: Mapping[str, Any] | None) -> bool:
    return row is None or "memory" in row.get("refused", "")


def _rows(paths: list[Path], jobs: int, drafts: int, until: float) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Every problem's row as it is there; none is begun after ``until``."""
    context = multiprocessing.get_context("spawn")
    todo, done = context.Queue(), context.Queue()
    with tempfile.TemporaryDirectory() as folder:
        given = (todo, done, drafts, Path(folder), max(1, torch.get_num_threads() // jobs))
        workers = [context.Process(target=_work, args=given, daemon=True) for _ in range(min(jobs, len(paths)))]
        for worker in workers:
            worker.start()
        waiting, left = 0, iter(paths)
        while True:
            while waiting < jobs and time.monotonic() < until and (path := next(left, None)) is not None:
                todo.put(path)
                waiting += 1
            if not waiting:
                break
            try:
                yield done.get(timeout=60)
            except queue.Empty:
                # Who died while it was timing has left them standing still.
                _signal(Path(folder), signal.SIGCONT)
                if any(worker.is_alive() for worker in workers) and time.monotonic() < until + 60:
                    continue
                break
            waiting -= 1
        for _ in workers:
            todo.put(None)
        for worker in workers:
            worker.join(10)
            worker.kill()


if __name__ == "__main__":
    main()
