"""The generator's Triton drafts on a GPU: right or wrong against float64, and times beside eager and torch.compile.

Two steps, for a machine with a GPU that has torch and triton and nothing of kernelswarm:

    python benchmarks/gpu_kernels.py --write kernelswarm-out/gpu-candidates          # anywhere
    python benchmarks/gpu_kernels.py --run kernelswarm-out/gpu-candidates --limit 280  # on the GPU
"""

import argparse
import importlib.util
import json
import os
import statistics
import sys
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from _gpu_operators import OPERATORS, Operator
from _shared import RESULTS, machine, now, save, table, versions

HEADER = (
    "operator",
    "dtype",
    "eager",
    "compile",
    "max-auto",
    "kernel",
    "x eager",
    "x best",
    "% copy",
    "% alike",
    "TFLOP/s",
    "recipe",
)
BASELINES = ("eager", "compile", "max_autotune")
COPY = "copy"
"""Timed beside the kernels: a plain copy of half of the operator's bytes, which moves as many. A short one does not
reach the bandwidth of a long one."""


# Writing candidates: no GPU


def write(folder: Path, names: list[str], drafts: int) -> None:
    """The generator's drafts for every operator and dtype as files, with an index."""
    index: list[dict[str, Any]] = []
    for operator in _chosen(names):
        for dtype in operator.dtypes:
            for number, (source, config, why) in enumerate(_drafts(operator, dtype, drafts)):
                path = folder / f"{operator.name}-{dtype}-{number}.py"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(source, encoding="utf-8")
                index.append(
                    {"operator": operator.name, "dtype": dtype, "file": path.name, "recipe": config, "why": why}
                )
            print(
                f"{operator.name} {dtype}: {sum(e['operator'] == operator.name for e in index)} candidates", flush=True
            )
    save(folder / "index.json", {"written": now(), "versions": versions(), "candidates": index})


def _drafts(operator: Operator, dtype: str, count: int) -> list[tuple[str, dict[str, Any], str]]:
    from kernelswarm.codegen import Generator, Proposal
    from kernelswarm.hardware.capture.capture import capture
    from kernelswarm.schemas import HardwareFacts, Intent, MemoryOperator, NodePlanned, ProblemFacts, Work

    graph = capture(operator.run, operator.inputs(dtype, "cpu", empty=True))
    work = Work(read_bytes=1, write_bytes=1, flops=1)
    facts = ProblemFacts(signature=(), shapes=(), graph=graph, work=work, dtype=dtype, float64_oracle=True)
    hardware = HardwareFacts(
        device="NVIDIA H200",
        cores=16,
        isa=("sm_90",),
        vector_bytes=16,
        l2_bytes=60 << 20,
        l3_bytes=0,
        memory_bytes=141 << 30,
        copy_gbps=4300.0,
        peak_gflops=67000.0,
    )
    plan = NodePlanned(parent="", intent=Intent.draft, memory=MemoryOperator.clean_slate)
    drafts: list[tuple[str, dict[str, Any], str]] = []
    while len(drafts) < count:
        proposal = Generator().propose(facts, hardware, plan, None, [r for _, r, _ in drafts], language="triton")
        if not isinstance(proposal, Proposal):
            break
        drafts.append((proposal.source, dict(proposal.config), proposal.rationale))
    return drafts


def _chosen(names: list[str]) -> list[Operator]:
    by_name = {operator.name: operator for operator in OPERATORS}
    unknown = [name for name in names if not any(key.startswith(name) for key in by_name)]
    if unknown:
        sys.exit(f"no operator {', '.join(unknown)}: choose from {', '.join(by_name)}")
    return [o for key, o in by_name.items() if not names or any(key.startswith(name) for name in names)]


# Running them


def load(path: Path) -> Any:
    """A candidate's ``kernel``."""
    return _module(path).kernel


def _module(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem.replace("-", "_"), path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def compile_ahead(path: str) -> str:
    """Compile a candidate's launches into Triton's cache, in a process of its own; a message where it fails."""
    try:
        module = _module(Path(path))
        for launch in module.TRITON_LAUNCHES:
            # By place: Triton stands in for tensors only where they are passed so. The list has the parameters' order.
            arguments = [_mock(value) for value in launch["arguments"].values()]
            getattr(module, launch["kernel"]).warmup(*arguments, **launch["options"], grid=(1,))
    except Exception as error:  # noqa: BLE001 - whatever a compiler says is a result
        return f"{type(error).__name__}: {str(error)[-400:]}"
    return ""


_TORCH = {
    "fp32": "float32", "fp64": "float64", "bf16": "bfloat16", "fp16": "float16", "i64": "int64", "i32": "int32",
    "i16": "int16", "i8": "int8", "u8": "uint8", "i1": "bool",
}  # fmt: skip


def _mock(value: Any) -> Any:
    return getattr(torch, _TORCH[value[1:]]) if isinstance(value, str) and value.startswith("*") else value


class Run:
    """One run of the benchmark on a GPU."""

    def __init__(self, folder: Path, options: argparse.Namespace) -> None:
        from _gpu_timing import Timer, copy_gbps

        self.folder = folder
        self.options = options
        self.started = time.monotonic()
        self.index = json.loads((folder / "index.json").read_text(encoding="utf-8"))["candidates"]
        self.timer = Timer()
        self.copy = copy_gbps(self.timer)
        self.failed: dict[str, str] = {}
        self.entries: list[dict[str, Any]] = []

    def left(self) -> float:
        """Seconds left."""
        return float(self.options.limit) - (time.monotonic() - self.started)

    def all(self) -> list[dict[str, Any]]:
        """Every operator and dtype until the time is over."""
        cases = [(o, d) for o in _chosen(self.options.only) for d in o.dtypes if self._files(o, d)]
        self._compile(cases)
        for place, (operator, dtype) in enumerate(cases):
            share = self.left() / (len(cases) - place)
            if share < 1:
                print(f"out of time before {operator.name} {dtype}", flush=True)
                break
            try:
                self.entries.append(self._case(operator, dtype, time.monotonic() + share))
            except Exception:  # noqa: BLE001 - one operator must not end the run
                self.entries.append(
                    {"operator": operator.name, "dtype": dtype, "error": traceback.format_exc()[-1500:]}
                )
            torch.cuda.empty_cache()
            print(" ".join(row(self.entries[-1], self.copy)), flush=True)
        return self.entries

    def _files(self, operator: Operator, dtype: str) -> list[dict[str, Any]]:
        entries = [e for e in self.index if e["operator"] == operator.name and e["dtype"] == dtype]
        return entries[: self.options.candidates]

    def _compile(self, cases: list[tuple[Operator, str]]) -> None:
        paths = [str(self.folder / e["file"]) for case in cases for e in self._files(*case)]
        begun = time.monotonic()
        with ProcessPoolExecutor(self.options.jobs, mp_context=get_context("spawn")) as pool:
            for path, message in zip(paths, pool.map(compile_ahead, paths), strict=True):
                if message:
                    self.failed[Path(path).name] = message
                    print(f"{Path(path).name}: {message}", flush=True)
        print(f"compiled {len(paths)} candidates in {time.monotonic() - begun:.0f} s", flush=True)

    def _case(self, operator: Operator, dtype: str, until: float) -> dict[str, Any]:
        inputs = operator.inputs(dtype, "cuda")
        with torch.no_grad():
            want = operator.run(*[v.double() if v.is_floating_point() else v for v in inputs]).double()
            calls: dict[str, Callable[[], Any]] = {"eager": lambda: operator.run(*inputs)}
            error = self._error(calls["eager"], want)
            bound = max(4 * error, 2e-6)
            candidates = self._candidates(operator, dtype, inputs, want, bound, until)
            right = {n: c for n, c in candidates.items() if c["error"] <= bound and c.get("call")}
            screened = self.timer.samples({n: c["call"] for n, c in right.items()}, 5)
            best = sorted(screened, key=lambda n: statistics.median(screened[n]))[:3]
            for name in self.options.baselines:
                if name != "eager" and time.monotonic() < until + 5:
                    self._baseline(name, operator, inputs, calls)
            calls |= {function.__name__: lambda function=function: function(*inputs) for function in operator.others}
            wrong = [
                function.__name__ for function in operator.others if self._error(calls[function.__name__], want) > bound
            ]
            assert not wrong, f"{wrong} compute something else"
            del want
            calls[COPY] = _copy(operator.bytes(dtype))
            timed = self.timer.samples({**calls, **{n: right[n]["call"] for n in best}}, self.options.rounds)
        return {
            "operator": operator.name,
            "dtype": dtype,
            "bytes": operator.bytes(dtype),
            "flops": operator.flops,
            "eager_error": error,
            "candidates": {
                n: {**{k: v for k, v in c.items() if k != "call"}, "screened_ms": screened.get(n, [])}
                for n, c in candidates.items()
            },
            "best": best[:1],
            "samples_ms": timed,
            "others": [function.__name__ for function in operator.others],
        }

    def _candidates(
        self, operator: Operator, dtype: str, inputs: list[Any], want: Any, bound: float, until: float
    ) -> dict[str, dict[str, Any]]:
        candidates: dict[str, dict[str, Any]] = {}
        for entry in self._files(operator, dtype):
            name = entry["file"]
            if name in self.failed or (candidates and time.monotonic() > until):
                candidates[name] = {
                    "recipe": entry["recipe"],
                    "error": float("inf"),
                    "message": self.failed.get(name, "late"),
                }
                continue
            candidates[name] = self._try(entry, inputs, want)
            if candidates[name]["error"] > bound:
                print(
                    f"{name}: error {candidates[name]['error']:.2e}, bound {bound:.2e} {candidates[name]['message']}",
                    flush=True,
                )
        return candidates

    def _try(self, entry: dict[str, Any], inputs: list[Any], want: Any) -> dict[str, Any]:
        result: dict[str, Any] = {"recipe": entry["recipe"], "why": entry["why"], "message": ""}
        try:
            kernel = load(self.folder / entry["file"])

            def call() -> Any:
                return kernel(*inputs)

            result |= {"error": self._error(call, want), "call": call}
        except Exception as error:  # noqa: BLE001 - a candidate may fail in any way
            result |= {"error": float("inf"), "message": f"{type(error).__name__}: {str(error)[-300:]}"}
        return result

    def _error(self, call: Callable[[], Any], want: Any) -> float:
        from _gpu_timing import relative_error

        return relative_error(call(), want)

    def _baseline(self, name: str, operator: Operator, inputs: list[Any], calls: dict[str, Callable[[], Any]]) -> None:
        torch._dynamo.reset()
        mode = None if name == "compile" else "max-autotune-no-cudagraphs"
        compiled = torch.compile(operator.run, mode=mode, dynamic=False)
        try:
            compiled(*inputs)
            torch.cuda.synchronize()
        except Exception as error:  # noqa: BLE001 - a baseline may fail in any way
            print(f"{name} of {operator.name}: {type(error).__name__}", flush=True)
            return
        calls[name] = lambda: compiled(*inputs)


def _copy(moved: int) -> Callable[[], Any]:
    source = torch.ones(max(1, moved // 8), dtype=torch.float32, device="cuda")
    target = torch.empty_like(source)
    return lambda: target.copy_(source)


def row(entry: dict[str, Any], copy: float) -> tuple[str, ...]:
    """One line of the table."""
    if "error" in entry:
        return (entry["operator"], entry["dtype"], *["-"] * (len(HEADER) - 3), entry["error"][-200:])
    medians = {name: statistics.median(times) for name, times in entry["samples_ms"].items()}
    best = entry["best"][0] if entry["best"] else ""
    beside = entry.get("others", ())
    own = {name: time for name, time in medians.items() if name not in (*BASELINES, COPY, *beside)}
    ms = min(own.values(), default=0.0)
    best = next((name for name, time in own.items() if time == ms), best)
    strongest = min(medians[name] for name in BASELINES if name in medians)
    config = entry["candidates"][best]["recipe"] if best else {}
    default = next(iter(entry["candidates"].values()))["recipe"] if entry["candidates"] else {}
    changed = ",".join(f"{k}={v}" for k, v in config.items() if default.get(k) != v) or "default"
    return (
        entry["operator"],
        entry["dtype"],
        *(f"{medians[name]:.4f}" if name in medians else "-" for name in BASELINES),
        f"{ms:.4f}" if ms else "-",
        f"{medians['eager'] / ms:.2f}" if ms else "-",
        f"{strongest / ms:.2f}" if ms else "-",
        f"{100 * entry['bytes'] / ms / 1e6 / copy:.1f}" if ms else "-",
        f"{100 * medians[COPY] / ms:.1f}" if ms and COPY in medians else "-",
        f"{entry['flops'] / ms / 1e9:.0f}" if ms and entry["flops"] else "-",
        (changed if best else "none right") + "".join(f"; {name} {medians[name]:.4f}" for name in beside),
    )


def main() -> int:
    """Write or run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path, help="folder for the candidates; needs kernelswarm, no GPU")
    parser.add_argument("--run", type=Path, help="folder of candidates to run; needs a GPU, torch and triton only")
    parser.add_argument(
        "--only", type=lambda t: [n for n in t.split(",") if n], default=[], help="operators, by prefix"
    )
    parser.add_argument("--drafts", type=int, default=16, help="candidates written for each operator and dtype")
    parser.add_argument("--candidates", type=int, default=1000, help="candidates run for each operator and dtype")
    parser.add_argument(
        "--baselines", type=lambda t: t.split(","), default=list(BASELINES), help="of eager, compile, …"
    )
    parser.add_argument("--rounds", type=int, default=40, help="interleaved rounds of the final timing")
    parser.add_argument("--limit", type=float, default=280, help="seconds after which no further operator is begun")
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) - 2), help="compilations at once")
    parser.add_argument("--out", type=Path, default=RESULTS / "gpu_kernels.json", help="raw results")
    options = parser.parse_args()
    if options.write is None and options.run is None:
        parser.error("say --write FOLDER, --run FOLDER, or both")
    if options.write is not None:
        write(options.write, options.only, options.drafts)
    if options.run is None:
        return 0
    if not torch.cuda.is_available():
        sys.exit("no CUDA device here: run this step on the machine with the GPU")
    run = Run(options.run, options)
    print(f"{torch.cuda.get_device_name()}: copies at {run.copy:.0f} GB/s", flush=True)
    entries = run.all()
    facts = {"date": now(), "machine": machine(), "versions": versions(), "device": torch.cuda.get_device_name()}
    save(options.out, {**facts, "copy_gbps": run.copy, "failed": run.failed, "entries": entries})
    print("\n" + table(HEADER, [row(entry, run.copy) for entry in entries]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
