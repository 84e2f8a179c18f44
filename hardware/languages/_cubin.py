"""What NVIDIA's tools say of a compiled kernel: its resources and its machine code."""

import importlib.util
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from ...schemas import PoolError

SECONDS = 60.0
_FUNCTION = re.compile(r"^\s*Function (?P<name>\S+):\s*$")
_USAGE = re.compile(r"\b(?P<key>REG|STACK|SHARED|LOCAL):(?P<value>\d+)")


@dataclass(frozen=True)
class Resources:
    """Of one function."""

    registers: int
    spill_bytes: int
    shared_bytes: int
    """Declared in the code; what the launch adds is not in it."""


def find_tool(name: str) -> str:
    """Path of ``cuobjdump`` or ``nvdisasm``: Triton's own, then CUDA's.

    Raises:
        PoolError: neither has it.
    """
    triton = importlib.util.find_spec("triton")
    folders = (
        [Path(place) / "backends/nvidia/bin" for place in (triton.submodule_search_locations or ())] if triton else []
    )
    folders += [Path(os.environ.get("CUDA_HOME") or "/usr/local/cuda") / "bin"]
    for folder in folders:
        if os.access(folder / name, os.X_OK):
            return str(folder / name)
    if path := shutil.which(name):
        return path
    raise PoolError(f"{name} is not here: `pip install triton`, or put CUDA's bin folder on the PATH")


def resources(cubin: Path, cuobjdump: str) -> dict[str, Resources]:
    """Resources of every function in ``cubin``, by name.

    Raises:
        PoolError: the tool does not run, or does not know the file.
    """
    return read_resources(_output([cuobjdump, "-res-usage", str(cubin)]))


def read_resources(text: str) -> dict[str, Resources]:
    """What ``cuobjdump -res-usage`` printed."""
    kernels: dict[str, Resources] = {}
    name = ""
    for line in text.splitlines():
        if function := _FUNCTION.match(line):
            name = function["name"]
        elif name and "REG:" in line:
            used = {match["key"]: int(match["value"]) for match in _USAGE.finditer(line)}
            kernels[name] = Resources(used["REG"], max(used["STACK"], used["LOCAL"]), used["SHARED"])
            name = ""
    return kernels


def machine_code(cubin: Path) -> str:
    """``cubin`` as SASS.

    Raises:
        PoolError: the tool is not here, does not run, or does not know the file.
    """
    return _output([find_tool("cuobjdump"), "-sass", str(cubin)])


def _output(command: list[str]) -> str:
    # It looks for its own helper (nvdisasm) on the PATH.
    environment = {**os.environ, "PATH": f"{Path(command[0]).parent}{os.pathsep}{os.environ.get('PATH', '')}"}
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False, env=environment)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PoolError(f"{command[0]} does not run: {error}") from error
    if done.returncode != 0:
        reason = next(iter((done.stderr or done.stdout).splitlines()), f"exit status {done.returncode}")
        raise PoolError(f"{command[0]} cannot read {command[-1]}: {reason}")
    return done.stdout
