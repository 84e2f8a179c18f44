"""Which native compiler a pool uses on this machine."""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from ...schemas import Pool, PoolError

CANDIDATES = ("g++", "clang++", "c++")
"""Looked for in this order when neither the pool nor ``$CXX`` names one."""

WAY_OUT = "install one (`apt-get install g++`, `dnf install gcc-c++`, `xcode-select --install`) or set CXX to its path"


SYSTEM = (
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store", "/gnu/store",
    "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives",
    "/dev/null", "/dev/zero", "/dev/urandom",
)  # fmt: skip
"""Where toolchains lie, and what they need of the rest."""
PLACES = ("LD_LIBRARY_PATH", "LIBRARY_PATH", "CPATH", "CPLUS_INCLUDE_PATH", "SDKROOT", "CONDA_PREFIX")
"""Variables that name more such places."""


@dataclass(frozen=True)
class Compiler:
    """A C++ compiler that answered when it was asked for its version."""

    path: str
    """Absolute path."""

    name: str
    """Family: ``g++`` or ``clang++``."""

    version: str
    """As it says: ``12.2.0``."""

    def __str__(self) -> str:
        return f"{self.name} {self.version}"

    @property
    def files(self) -> tuple[str, ...]:
        """What it has to read beside what it compiles: folders and files, absolute."""
        home = Path(self.path).resolve().parent.parent
        own = (str(home), str(Path(self.path).parent.parent)) if len(home.parts) > 2 else ()
        named = (place for name in PLACES for place in os.environ.get(name, "").split(os.pathsep))
        return (*SYSTEM, *own, *(place for place in named if place.startswith("/") and Path(place).parts != ("/",)))


def find_compilers(pool: Pool) -> tuple[Compiler, ...]:
    """The compilers of this machine, the one the pool uses first; empty if there is none.

    A pool that names its compiler gets that one and no other.
    """
    named = [pool.compiler] if pool.compiler else [os.environ.get("CXX", ""), *CANDIDATES]
    compilers: dict[str, Compiler] = {}
    for name in named:
        path = shutil.which(name) if name else None
        compiler = None if path is None else _ask(path, Path(path).stat().st_mtime_ns)
        if compiler is not None:
            compilers.setdefault(str(compiler), compiler)
    return tuple(compilers.values())


def find_compiler(pool: Pool) -> Compiler:
    """The compiler that the pool's candidates are built with.

    Raises:
        PoolError: none is installed, or the one the pool names is not there.
    """
    compilers = find_compilers(pool)
    if compilers:
        return compilers[0]
    if pool.compiler:
        raise PoolError(
            f"pool {pool.name!r} asks for the compiler {pool.compiler!r}, which does not run here; {WAY_OUT}"
        )
    raise PoolError(f"no C++ compiler found (looked for $CXX, {', '.join(CANDIDATES)}); {WAY_OUT}")


@lru_cache(maxsize=32)
def _ask(path: str, _modified_ns: int) -> Compiler | None:
    try:
        answer = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    if answer.returncode != 0:
        return None
    first = answer.stdout.partition("\n")[0]
    version = re.search(r"\d+\.\d+(\.\d+)?", re.sub(r"\([^)]*\)", "", first))
    name = "clang++" if "clang" in answer.stdout.lower() else "g++"
    return Compiler(path, name, version.group() if version else "unknown")
