"""What the checks on a device have in common: the pool, compiling, and a confined child as a candidate's."""

import asyncio
import importlib.util
import json
import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent


def importable() -> None:
    """Make ``kernelswarm`` importable here and in every child, installed or not."""
    if importlib.util.find_spec("kernelswarm") is None:
        folder = tempfile.mkdtemp(prefix="kernelswarm-path-")
        Path(folder, "kernelswarm").symlink_to(ROOT)
        sys.path.insert(0, folder)
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (folder, os.environ.get("PYTHONPATH"))))


def pool_and_facts(home: Path):
    from kernelswarm.hardware.platforms import detect, nvidia
    from kernelswarm.hardware.pools.pool_files import find_pool

    pool = find_pool("h200", home)
    return pool, detect(pool, home) if find_gpu() else nvidia.for_compiling(pool)


def find_gpu() -> bool:
    from kernelswarm.hardware.machine.nvml import find_devices
    from kernelswarm.schemas import PoolError

    try:
        return bool(find_devices().accelerators)
    except PoolError:
        return False


def text(name: str) -> str:
    return (HERE / name).read_text()


def compiled(language: str, source: str, home: Path):
    from kernelswarm.hardware.languages import find_language

    pool, facts = pool_and_facts(home)
    report, paths = asyncio.run(
        find_language(language).compile(source, pool=pool, hardware=facts, cache=home / "artifacts")
    )
    assert report.ok, [diagnostic.message for diagnostic in report.diagnostics] or report.log
    return report, next(iter(paths.values()))


def confined(home: Path, work: Callable[[Path], dict]) -> dict:
    """What ``work(scratch)`` returns in a forked child that may start no program: as a candidate runs in the harness.

    The child is forked before CUDA is initialised, and Triton prepared before that.
    """
    from kernelswarm.hardware.processes import seccomp

    scratch = Path(tempfile.mkdtemp(dir=home))
    answer = scratch / "answer.json"
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            signal.alarm(60)
            seccomp.confine()
            answer.write_text(json.dumps(work(scratch)))
            status = 0
        except BaseException:  # noqa: BLE001
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
    _, status = os.waitpid(pid, 0)
    assert status == 0, f"the confined child ended with wait status {status}; its traceback is above"
    return json.loads(answer.read_text())


def imported(source: str, folder: Path):
    path = folder / "candidate.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location("candidate", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["candidate"] = module
    spec.loader.exec_module(module)
    return module
