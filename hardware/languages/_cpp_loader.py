"""The text a C++ candidate carries to load its own native code, so that the file runs without kernelswarm."""

BASE_FLAGS = (
    "-O3",
    "-march=native",
    "-std=c++17",
    "-fPIC",
    "-shared",
    "-fopenmp",
    "-fno-math-errno",
    "-fno-trapping-math",
)
"""Flags every candidate is compiled with, before its own ``CPP_FLAGS``."""

_TEMPLATE = '''\
import ctypes
import hashlib
import json
import os
import platform
import shutil
import subprocess
import tempfile


def _load():
    """CPP_SOURCE as a ctypes library: $KERNELSWARM_ARTIFACTS has it, or it is compiled once into the user's cache."""
    text = json.dumps(["cpp", CPP_SOURCE, CPP_FLAGS], separators=(",", ":"))
    name = hashlib.sha256(text.encode()).hexdigest() + ".so"
    shipped = os.environ.get("KERNELSWARM_ARTIFACTS")
    if shipped and os.path.exists(os.path.join(shipped, name)):
        return ctypes.CDLL(os.path.join(os.path.abspath(shipped), name))
    path = os.path.join(_cache_folder(), name)
    if not os.path.exists(path):
        _compile(path)
    return ctypes.CDLL(path)


def _cache_folder():
    """A folder that only this user can write, for this kind of processor: what is in it gets executed."""
    processor = platform.machine() + platform.processor()
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo") as lines:
            processor += "".join(sorted({line for line in lines if line.startswith(("flags", "Features"))}))
    kind = hashlib.sha256(processor.encode()).hexdigest()[:16]
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    folder = os.path.join(base, "kernelswarm-kernels", kind)
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        status = os.lstat(folder)
    except OSError:
        return tempfile.mkdtemp(prefix="kernelswarm-kernels-")
    mine = status.st_uid == os.getuid() and not status.st_mode & 0o022
    return folder if mine and os.access(folder, os.W_OK) else tempfile.mkdtemp(prefix="kernelswarm-kernels-")


def _compile(path):
    """Compile CPP_SOURCE to ``path``, which appears whole or not at all."""
    names = [os.environ.get("CXX"), "g++", "clang++"]
    compiler = next((found for found in map(shutil.which, filter(None, names)) if found), None)
    if compiler is None:
        raise RuntimeError("this kernel needs a C++ compiler: install g++ or clang++, or set CXX")
    with tempfile.TemporaryDirectory(dir=os.path.dirname(path)) as folder:
        with open(os.path.join(folder, "kernel.cpp"), "w", encoding="utf-8") as file:
            file.write(CPP_SOURCE)
        base = %BASE%
        command = [compiler, *base, *CPP_FLAGS, "-o", "kernel.so", "kernel.cpp"]
        result = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        if result.returncode != 0:
            raise RuntimeError("this kernel does not compile here:\\n" + result.stderr)
        os.replace(os.path.join(folder, "kernel.so"), path)
'''

LOADER = _TEMPLATE.replace("%BASE%", f'"{" ".join(BASE_FLAGS)}".split()')
"""Python source that defines ``_load() -> ctypes.CDLL``. The candidate puts ``CPP_SOURCE`` and ``CPP_FLAGS`` (both
literals, the latter possibly empty) anywhere at module level beside it. Needs only the standard library."""
