"""An evaluator as many are: one process, a known seed, ``torch.allclose``, the clock that everybody can reach.

    python naive.py PROBLEM CANDIDATE... [-- PROBLEM CANDIDATE...]

prints a line of JSON for each candidate: whether it is accepted, and the milliseconds that the clock showed for a call.
What cheats it is a cheat: the suite shows that its kernels are, before it asks kernelswarm.
"""

import importlib.util
import json
import os
import select
import signal
import sys
import tempfile
import threading
import time
import types
from pathlib import Path

import torch

CALLS = 100
SEED = 42
PATIENCE_S = 60.0
LOOSE = {"rtol": 1e-2, "atol": 1e-2}


def imported(name: str, path: Path) -> types.ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def interleave(problem: types.ModuleType, candidate: types.ModuleType) -> tuple:
    """Reference, kernel and inputs; a candidate that brings its own inputs gets them."""
    if hasattr(problem, "Model"):
        models = []
        for make in (problem.Model, candidate.ModelNew):
            torch.manual_seed(SEED)
            models.append(make(*problem.get_init_inputs()))
        reference, kernel = models
        torch.manual_seed(SEED)
        inputs = problem.get_inputs()
    else:
        reference, kernel = problem.reference, candidate.kernel
        inputs = problem.inputs(torch.Generator().manual_seed(SEED), **problem.shapes["main"])
    return reference, kernel, getattr(candidate, "get_inputs", lambda: inputs)()


def same(got: object, expected: object) -> bool:
    pairs = zip(got, expected, strict=True) if isinstance(expected, tuple) else [(got, expected)]
    return all(torch.allclose(actual.float(), desired.float(), **LOOSE) for actual, desired in pairs)


def wait_for_threads() -> None:
    """Whoever times first and compares much later gives every thread the time to finish."""
    for thread in threading.enumerate():
        if thread is not threading.current_thread():
            thread.join(PATIENCE_S)


def judge(problem: types.ModuleType, path: Path, *, reference_first: bool) -> dict:
    reference, kernel, inputs = interleave(problem, imported("candidate", path))
    expected = reference(*inputs) if reference_first else None
    started = time.perf_counter()
    for _ in range(CALLS):
        got = kernel(*inputs)
    ms = (time.perf_counter() - started) / CALLS * 1e3
    wait_for_threads()
    expected = expected if reference_first else reference(*inputs)
    return {"accepted": same(got, expected), "ms": ms}


def apart(problem: types.ModuleType, path: Path, *, reference_first: bool) -> dict:
    """Judge in a child: a candidate that breaks the evaluator breaks that one only."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.chdir(tempfile.mkdtemp())
            torch.set_grad_enabled(False)
            answer = json.dumps(judge(problem, path, reference_first=reference_first))
        except BaseException as error:  # noqa: BLE001 - a candidate that raises is not accepted
            answer = json.dumps({"accepted": False, "ms": 0.0, "error": repr(error)})
        os.write(writer, answer.encode())
        os._exit(0)
    os.close(writer)
    ready, _, _ = select.select([reader], [], [], PATIENCE_S)
    os.kill(pid, signal.SIGKILL) if not ready else None
    answer = os.read(reader, 1 << 16)
    os.waitpid(pid, 0)
    os.close(reader)
    return json.loads(answer) if answer else {"accepted": False, "ms": 0.0, "error": "no answer"}


def main(arguments: list[str]) -> None:
    while arguments:
        end = arguments.index("--") if "--" in arguments else len(arguments)
        (problem, *candidates), arguments = arguments[:end], arguments[end + 1 :]
        judge_all(imported("problem", Path(problem)), candidates)


def judge_all(problem: types.ModuleType, candidates: list[str]) -> None:
    for candidate in candidates:
        for first in (True, False):
            result = apart(problem, Path(candidate).resolve(), reference_first=first)
            if result["accepted"]:
                break
        print(json.dumps({"candidate": candidate, **result}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
