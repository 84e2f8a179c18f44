"""Compiles a candidate's Triton kernels for a target, in a process of its own, with or without a GPU.

It goes the way that a launch goes: ``kernel.warmup`` with stand-ins for tensors and a stand-in for the driver that
names the target. So the entries it leaves in Triton's cache are those that the candidate's launches will look up, by
construction and with whichever version of Triton is installed. It shuts itself off before it imports anything foreign.

Usage: ``python -m kernelswarm.hardware.languages._triton_ahead FOLDER`` with ``request.json`` and ``candidate.py`` in
FOLDER; leaves ``result.json`` and ``kernels.tar`` there.
"""

import contextlib
import importlib.util
import os
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...schemas import Diagnostic, KernelResources, decode, encode
from ._cubin import find_tool, resources
from ._shut_off import shut_off
from ._triton_runtime import capability, pack
from ._triton_source import Descriptor, Launch, Request, Result

MODULE = "candidate"
"""Name under which the harness imports candidates: Triton's keys may hold it."""

_TORCH = {
    "i1": ("bool", 1), "i8": ("int8", 1), "i16": ("int16", 2), "i32": ("int32", 4), "i64": ("int64", 8),
    "u8": ("uint8", 1), "u16": ("uint16", 2), "u32": ("uint32", 4), "u64": ("uint64", 8),
    "fp16": ("float16", 2), "bf16": ("bfloat16", 2), "fp32": ("float32", 4), "fp64": ("float64", 8),
    "fp8e4nv": ("float8_e4m3fn", 1), "fp8e5": ("float8_e5m2", 1),
}  # fmt: skip
"""Triton's name of a type to torch's, and its bytes."""


def main(folder: Path) -> None:
    """Compile the request in ``folder``."""
    request = decode((folder / "request.json").read_bytes(), Request)
    source = (folder / "candidate.py").read_text(encoding="utf-8")
    scratch = folder / "scratch"
    scratch.mkdir()
    # Opened before the files become read-only: what is open stays writable.
    with (folder / "result.json").open("wb") as result, (folder / "kernels.tar").open("wb") as archive:
        isolation = shut_off(scratch)
        os.chdir(scratch)
        os.environ.update(TRITON_CACHE_DIR=str(scratch / "cache"), HOME=str(scratch), TMPDIR=str(scratch))
        found = _compile(request, source, scratch)
        result.write(encode(Result(isolation=isolation, **found)))
        archive.write(pack(scratch / "cache"))


def _compile(request: Request, source: str, scratch: Path) -> dict[str, Any]:
    warnings.simplefilter("ignore")
    from triton.backends.compiler import GPUTarget
    from triton.runtime import driver

    driver.set_active(_Driver(GPUTarget("cuda", capability(request.target), 32)))
    kernels: list[KernelResources] = []
    diagnostics: list[Diagnostic] = []
    launchers = True
    try:
        module = _imported(source, scratch)
    except Exception as error:  # noqa: BLE001 - a message to its author
        return {"diagnostics": (_diagnostic(error, None, f"{type(error).__name__} in the kernels' module: "),)}
    for launch in request.launches:
        try:
            kernel = _warmed(module, launch)
            kernels.append(_measured(launch, kernel, scratch))
            launchers &= _has_launcher(kernel)
        except Exception as error:  # noqa: BLE001 - Triton's have no common base
            diagnostics.append(_diagnostic(error, module, f"{launch.kernel}: "))
    return {"kernels": tuple(kernels), "diagnostics": tuple(dict.fromkeys(diagnostics)), "launchers": launchers}


def _imported(source: str, scratch: Path) -> Any:
    path = scratch / f"{MODULE}.py"
    path.write_text(source, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(MODULE, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[MODULE] = module
    spec.loader.exec_module(module)
    return module


def _warmed(module: Any, launch: Launch) -> Any:
    from triton.runtime.jit import JITFunction

    function = getattr(module, launch.kernel, None)
    while function is not None and not isinstance(function, JITFunction):
        function = getattr(function, "fn", None)
    if function is None:
        raise ValueError(f"there is no function {launch.kernel!r} under @triton.jit at module level")
    known = set(function.arg_names)
    required = {parameter.name for parameter in function.params if not parameter.has_default}
    if unknown := launch.arguments.keys() - known:
        raise ValueError(f"it has no parameter {sorted(unknown)[0]!r}; there is {', '.join(function.arg_names)}")
    if missing := required - launch.arguments.keys():
        raise ValueError(f"the launch gives no value for {', '.join(sorted(missing))}")
    arguments = {name: _stand_in(value) for name, value in launch.arguments.items()}
    return function.warmup(grid=(1,), **arguments, **launch.options)


def _stand_in(value: Any) -> Any:
    """What to pass to Triton for a value as the list of launches writes it."""
    if isinstance(value, Descriptor):
        from triton.tools.tensor_descriptor import TensorDescriptor

        base = _Tensor(_Type.named(value.descriptor), value.shape)
        return TensorDescriptor(base, list(value.shape), list(base.stride()), list(value.block))
    if isinstance(value, str) and value.startswith("*"):
        name, _, alignment = value[1:].partition(" ")
        if alignment not in ("", "unaligned"):
            raise ValueError(f"{value!r} is no tensor; write it as '*bf16' or '*bf16 unaligned'")
        return _Tensor(_Type.named(name), (1,), address=1 if alignment else 0)
    if isinstance(value, str) and value.startswith("tl."):
        import triton.language as tl

        return getattr(tl, value.removeprefix("tl."))
    return value


@dataclass(frozen=True)
class _Type:
    """Stands for a torch.dtype: Triton looks at its name and size only, and importing torch takes seconds."""

    name: str
    itemsize: int

    def __str__(self) -> str:
        return f"torch.{self.name}"

    @classmethod
    def named(cls, name: str) -> "_Type":
        if name not in _TORCH:
            raise ValueError(f"{name!r} is no element type; there is {', '.join(_TORCH)}")
        return cls(*_TORCH[name])


class _Tensor:
    """Stands for a tensor."""

    def __init__(self, dtype: _Type, shape: tuple[int, ...], address: int = 0) -> None:
        self.dtype = dtype
        self.shape = shape
        self._address = address

    def data_ptr(self) -> int:
        return self._address

    def ptr_range(self) -> int:
        return 0

    def stride(self) -> tuple[int, ...]:
        strides = [1]
        for size in reversed(self.shape[1:]):
            strides.append(strides[-1] * size)
        return tuple(reversed(strides))


class _Driver:
    """Stands for the driver of a device that need not be here."""

    def __init__(self, target: Any) -> None:
        self._target = target

    def get_current_target(self) -> Any:
        return self._target

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0


def _measured(launch: Launch, kernel: Any, scratch: Path) -> KernelResources:
    binary = scratch / "kernel.cubin"
    binary.write_bytes(kernel.asm["cubin"])
    used = resources(binary, find_tool("cuobjdump"))[kernel.metadata.name]
    return KernelResources(
        name=launch.kernel,
        registers=used.registers,
        spill_bytes=used.spill_bytes,
        shared_bytes=kernel.metadata.shared,
        warps=kernel.metadata.num_warps,
        stages=kernel.metadata.num_stages,
    )


def _has_launcher(kernel: Any) -> bool:
    """Compile the C code of the launch too, where this version of Triton has some: it links with the driver's library,
    so without that library it is left to the first launch."""
    from triton.backends.nvidia import driver

    if not hasattr(driver, "make_launcher"):
        return True
    with contextlib.suppress(Exception):
        driver.CudaLauncher(kernel.src, kernel.metadata)
        return True
    return False


def _diagnostic(error: BaseException, module: Any, prefix: str) -> Diagnostic:
    """The innermost message of Triton's front end, at its line in the file; else the error as it is."""
    from triton.compiler.errors import CompilationError

    inner, found = error, None
    while inner is not None:
        found = inner if isinstance(inner, CompilationError) else found
        inner = inner.__cause__  # type: ignore[assignment]
    if found is None:
        line = error.lineno or 0 if isinstance(error, SyntaxError) else 0
        return Diagnostic(severity="error", message=f"{prefix}{_short(str(error) or type(error).__name__)}", line=line)
    cause = found.__cause__ or found.__context__
    said = found.error_message or (str(cause) if cause is not None else str(found))
    node = found.node
    first = _first_line(module, found.src)
    place = (first + node.lineno - 1, node.col_offset + 1) if first and hasattr(node, "lineno") else (0, 0)
    return Diagnostic(severity="error", message=f"{prefix}{_short(said)}", line=place[0], column=place[1])


def _first_line(module: Any, source: str | None) -> int:
    """Line of the ``def`` of the kernel whose text Triton compiled; 0 if it is not one of the file's."""
    from triton.runtime.jit import JITFunction

    for value in vars(module).values() if module is not None else ():
        function = value
        while function is not None and not isinstance(function, JITFunction):
            function = getattr(function, "fn", None)
        if function is not None and source is not None and function.src == source:
            decorators = next(n for n, text in enumerate(function.raw_src) if text.lstrip().startswith("def "))
            return int(function.starting_line_number) + decorators
    return 0


def _short(message: str) -> str:
    return " ".join(message.split())[:500]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
