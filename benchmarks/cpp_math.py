"""How wrong and how fast the generator's C++ math functions are: ulps over all floats, nanoseconds by vector width.

    python benchmarks/cpp_math.py                                  # measure, into results/cpp_math.json
    python benchmarks/cpp_math.py --page > docs/cpp-math.md        # the page, from those results

Compiled as candidates are: the same compiler and flags, in the same jail. An oracle in double stands beside each
function; every ``--step``-th of the 2^32 floats is tried (1: all of them), with the special values.
"""

import argparse
import asyncio
import ctypes
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import _cpp_math_harness as harness
import numpy as np
from _shared import RESULTS, BenchmarkError, machine, now, save, table, versions

from kernelswarm.codegen.cpp.math import TABLE
from kernelswarm.hardware.languages.cpp import BASE_FLAGS, compile
from kernelswarm.hardware.machine.compilers import find_compiler
from kernelswarm.schemas import HardwareFacts, Pool

TARGETS = {"avx2": ["-mno-avx512f"], "avx512": ["-mprefer-vector-width=512"]}
"""Flags behind the candidates' own, by what they need of the processor. Without either the native target stands in."""
NEEDS = {"avx2": "avx2", "avx512": "avx512f"}
SCALES = {"result": 0, "argument": 1, "one": 2}
ELEMENTS, ROUNDS, TURNS = 4096, 30, 60
"""A loop's elements, which the first-level cache holds; calls that are timed at once; the best of so many counts."""
POSITIVE = ("log", "log2", "log10", "sqrt", "rsqrt", "acosh", "lgamma", "pow", "hypot", "atan2")

POOL = Pool(name="cpu", platform="cpu", languages=("cpp",), candidate_seconds=120.0)


def main() -> None:
    """Measure, or print the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--step", type=int, default=61, help="every so many floats (an odd number; default 61)")
    parser.add_argument("--only", default="", help="names, separated by commas; nothing is kept then")
    parser.add_argument("--page", action="store_true", help="print docs/cpp-math.md from the results")
    parser.add_argument("--json", action="store_true", help="print what was measured as JSON")
    arguments = parser.parse_args()
    if arguments.page:
        print(page(json.loads((RESULTS / "cpp_math.json").read_text())))
        return
    keys = [key for key in harness.measurable() if not arguments.only or key[0] in arguments.only.split(",")]
    try:
        results = measured(keys, arguments.step)
    except BenchmarkError as error:
        sys.exit(str(error))
    if not arguments.only:
        save(RESULTS / "cpp_math.json", results)
    print(json.dumps(results, indent=1) if arguments.json else _shown(results))


def measured(keys: list[harness.Key], step: int) -> dict[str, Any]:
    """Errors, times and vector code of the functions ``keys``."""
    facts = machine()
    targets = {name: flags for name, flags in TARGETS.items() if NEEDS[name] in facts["instructions"]} or {"native": []}
    functions: dict[str, Any] = {f"{name}/{level}": _facts((name, level)) for name, level in keys}
    with tempfile.TemporaryDirectory() as folder:
        text = harness.source(keys)
        libraries = {name: _library(text, flags, Path(folder)) for name, flags in targets.items()}
        for key in keys:
            errors = {name: _errors(library, key, step) for name, library in libraries.items()}
            functions["/".join(key)]["errors"] = errors
        for key, times in zip(keys, _times(libraries, keys), strict=True):
            functions["/".join(key)]["ns"] = times
        for name, flags in targets.items():
            vectorised = _vectorised(keys, flags, Path(folder))
            for key in keys:
                functions["/".join(key)].setdefault("vectorised", {})[name] = key in vectorised
    return {"at": now(), "step": step, "machine": facts, "versions": versions(), "functions": functions}


def _facts(key: harness.Key) -> dict[str, Any]:
    held = TABLE[key]
    ends = {name: value for name, value in (("low", held.low), ("high", held.high)) if abs(value) != float("inf")}
    return {"bound": held.ulp, "scale": held.scale, "note": held.note, **ends}


def _library(text: str, flags: list[str], folder: Path) -> ctypes.CDLL:
    """Compile as a candidate is compiled.

    Raises:
        BenchmarkError: it does not compile.
    """
    facts = HardwareFacts(
        device="", cores=1, isa=(), vector_bytes=64, l2_bytes=0, l3_bytes=0, memory_bytes=16 << 30, copy_gbps=1.0,
        peak_gflops=1.0,
    )  # fmt: skip
    candidate = f"CPP_SOURCE = {text!r}\nCPP_FLAGS = {flags!r}\n"
    report, artifacts = asyncio.run(compile(candidate, pool=POOL, hardware=facts, cache=folder))
    if not report.ok:
        raise BenchmarkError("\n".join(diagnostic.message for diagnostic in report.diagnostics))
    return ctypes.CDLL(str(next(iter(artifacts.values()))))


def _errors(library: ctypes.CDLL, key: harness.Key, step: int) -> dict[str, float]:
    held, values = TABLE[key], (ctypes.c_double * len(harness.FIELDS))()
    sweep = getattr(library, harness.entry(key, "sweep"))
    sweep.argtypes = [ctypes.c_uint64, ctypes.c_double, ctypes.c_double, ctypes.c_int, ctypes.c_void_p]
    sweep.restype = None
    sweep(step, held.low, held.high, SCALES[held.scale], values)
    # JSON has no infinity: a result that is lost is counted instead.
    return {name: float(f"{value:.6g}") for name, value in zip(harness.FIELDS, values, strict=True) if value == value}


def _times(libraries: dict[str, ctypes.CDLL], keys: list[harness.Key]) -> list[dict[str, float]]:
    """Nanoseconds an element: the targets in turns, the best turn of each."""
    draw = np.random.default_rng(0)
    x, out = draw.normal(0, 2, ELEMENTS).astype(np.float32), np.empty(ELEMENTS, np.float32)
    times = []
    for key in keys:
        argument = np.abs(x) + np.float32(1.001 if key[0] == "acosh" else 1e-3) if key[0] in POSITIVE else x
        argument = np.ascontiguousarray(np.tanh(argument) if key[0] in ("acos", "asin", "atanh") else argument)
        best = dict.fromkeys(libraries, float("inf"))
        turns = TURNS if key[1] != "libm" else 10
        for _ in range(turns):
            for name, library in libraries.items():
                best[name] = min(best[name], _seconds(library, key, argument, out) / ROUNDS / ELEMENTS * 1e9)
        times.append({name: round(value, 4) for name, value in best.items()})
    return times


def _seconds(library: ctypes.CDLL, key: harness.Key, x: np.ndarray[Any, Any], out: np.ndarray[Any, Any]) -> float:
    repeat = getattr(library, harness.entry(key, "repeat"))
    repeat.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_long, ctypes.c_long]
    repeat.restype = None
    began = time.perf_counter()
    repeat(x.ctypes.data, out.ctypes.data, x.size, ROUNDS)
    return time.perf_counter() - began


def _vectorised(keys: list[harness.Key], flags: list[str], folder: Path) -> set[harness.Key]:
    """Those whose loop became vector code, by the compiler's own report (GCC's; others have none: empty)."""
    text = harness.loops(keys)
    (folder / "loops.cpp").write_text(text)
    report = folder / "report.txt"
    report.write_text("")
    command = [find_compiler(POOL).path, *BASE_FLAGS, *flags, f"-fopt-info-vec-optimized={report}", "-S", "loops.cpp"]
    subprocess.run([*command, "-o", "loops.s"], cwd=folder, check=False, capture_output=True)
    vectorised = {int(line.split(":")[1]) for line in report.read_text().splitlines() if "loop vectorized" in line}
    heads = [number for number, line in enumerate(text.splitlines(), 1) if line.startswith("for (long")]
    return {key for key, number in zip(keys, heads, strict=True) if number in vectorised}


def _rows(results: dict[str, Any]) -> list[tuple[str, ...]]:
    rows = []
    for key, entry in sorted(results["functions"].items()):
        targets = list(entry["errors"])
        worst = max(entry["errors"].values(), key=lambda error: error["ulp"])
        bad = max(error["lost"] + error["wrong_special"] for error in entry["errors"].values())
        times = [f"{entry['ns'][name]:.3f}" + ("" if entry["vectorised"][name] else " s") for name in targets]
        errors = (f"{worst['ulp']:.2f}", f"{worst['at']:.5g}", _range(entry), entry["scale"])
        subnormal = max(error["subnormal_ulp"] for error in entry["errors"].values())
        rows.append((key, *errors, f"{subnormal:.2g}", f"{bad:.0f}", *times))
    return rows


def _range(entry: dict[str, Any]) -> str:
    ends = {">=": entry.get("low"), "<=": entry.get("high")}
    return " and ".join(f"{sign} {end:.5g}" for sign, end in ends.items() if end is not None) or "all"


def _header(results: dict[str, Any]) -> tuple[str, ...]:
    targets = next(iter(results["functions"].values()))["errors"]
    return (
        "function",
        "ulp",
        "at x",
        "held for x",
        "relative to",
        "subnormal",
        "wrong",
        *(f"ns {name}" for name in targets),
    )


def _shown(results: dict[str, Any]) -> str:
    return table(_header(results), _rows(results))


PAGE = """\
# The C++ math functions of the generator

Made by `python benchmarks/cpp_math.py --page > docs/cpp-math.md` from `benchmarks/results/cpp_math.json`; a test holds
the two together.

Kernels in C++ call `ks_<name>_<level>`. Which level is a tunable of the config, `math`:

- `accurate`, the default: under about two units in the last place, three where there is a quotient, 1.6 at most for
  sine and cosine of any float.
- `fast`: under about four, six for erf. Subnormal results count as zero. It is tried
  only if the worst errors of all functions in the operator together stay within what the problem allows: `error_bound`
  of its facts, as measured at problem validation ([0005](decisions/0005-how-wrong-a-candidate-may-be.md)).
- `short`: as `fast`, with sines, cosines and remainders of moderate arguments only. Tried only where there are such;
  the judge's heavy-tailed inputs decide whether it holds.
- `libm`: the C library, element by element.

"""


def page(results: dict[str, Any]) -> str:
    """The page with ``results``."""
    header, rows = _header(results), _rows(results)
    lines = ["| " + " | ".join(row) + " |" for row in (header, ["---"] * len(header), *rows)]
    host, software = results["machine"], results["versions"]
    return "\n".join(
        [
            PAGE + _how(results),
            "",
            *lines,
            "",
            f"{host['processor']}, {host['cores']} cores, {software.get('compiler', '')}; {results['at'][:10]}.",
        ]
    )


def _how(results: dict[str, Any]) -> str:
    return f"""\
One in {results["step"]} of the 2^32 floats, subnormal, infinite and NaN among them, against the same formula in double;
functions of two arguments on as many random pairs. **ulp**: the worst error of a result that is neither subnormal nor
infinite, in units in the last place of what it is **relative to**: the exact result; `argument`: for negative x the
argument, since x Phi(x) cancels there in PyTorch, too; `one`: next to a zero of sine and cosine, 1. **subnormal**: the
worst error of a subnormal result in units of 2^-149; 8.4e+06 are 2^-126: it came out as 0. **wrong**: infinities and
NaN that came out as something else, or the other way round. **ns**: nanoseconds an element, one core,
in the first-level cache, the best of {TURNS} turns; `s` behind it: the loop stayed scalar."""


if __name__ == "__main__":
    main()
