"""Compiles a candidate's Triton kernels for a target, in a process of its own, with or without a GPU.

It goes the way that a launch goes: ``kernel.warmup`` with stand-ins for tensors and a stand-in for the driver that
names the target. So the entries it leaves in Triton's cache are those that the candidate's launches will look up, by
construction and with whichever version of Triton is installed. :mod:`._triton_fork_server` shuts the process off first.
"""

import contextlib
import importlib
import importlib.util
import os
import sys
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...schemas import Diagnostic, KernelResources, PoolError
from ..processes import linux
from ._cubin import find_tool, resources
from ._triton_runtime import capability, fingerprint_of_triton, pack, use
from ._triton_source import Descriptor, Launch, Request, Result

MODULE = "candidate"
"""Name under which the harness imports candidates: Triton's keys may hold it."""

_IMPORTED = (
    "triton", "triton.language", "triton.language.extra.libdevice", "triton.tools.tensor_descriptor",
    "triton.backends.nvidia.compiler", "triton.backends.nvidia.driver",
)  # fmt: skip
"""What candidates' kernels and compiling them need."""

_TORCH = {
    "i1": ("bool", 1), "i8": ("int8", 1), "i16": ("int16", 2), "i32": ("int32", 4), "i64": ("int64", 8),
    "u8": ("uint8", 1), "u16": ("uint16", 2), "u32": ("uint32", 4), "u64": ("uint64", 8),
    "fp16": ("float16", 2), "bf16": ("bfloat16", 2), "fp32": ("float32", 4), "fp64": ("float64", 8),
    "fp8e4nv": ("float8_e4m3fn", 1), "fp8e5": ("float8_e5m2", 1),
}  # fmt: skip
"""Triton's name of a type to torch's, and its bytes."""


def load(target: str) -> None:
    """What a process does once before it forks those that compile: all imports and answers that they have in common.

    Nothing of a candidate runs, no thread is started, and torch is not imported unless Triton itself does.
    """
    from triton.compiler.compiler import make_backend

    for name in _IMPORTED:
        # What a version of Triton does not have, a candidate that needs it will miss by itself.
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    # Asks ptxas for its version.
    make_backend(_target(target)).hash()
    fingerprint_of_triton()
    with contextlib.suppress(PoolError):
        find_tool("cuobjdump")
    _compile_first(target)


def _compile_first(target: str) -> None:
    """Import what Triton imports with its first kernel: of some versions that is torch, which takes seconds."""
    from triton.runtime import driver

    from ._triton_first import nothing

    # It only saves time: what keeps Triton from compiling is told with the first candidate.
    with tempfile.TemporaryDirectory() as folder, contextlib.suppress(Exception), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        use(Path(folder))
        driver.set_active(_Driver(_target(target)))
        nothing.warmup(_stand_in("*fp32"), grid=(1,))


def compile_request(request: Request, scratch: Path) -> Result:
    """Compile ``request`` in this process, with everything written into ``scratch``."""
    warnings.simplefilter("ignore")
    from triton.runtime import driver

    use(scratch / "cache")
    driver.set_active(_Driver(_target(request.target)))
    try:
        module = _imported(request.kernels, scratch)
    except Exception as error:  # noqa: BLE001 - a message to its author
        return Result(diagnostics=(_diagnostic(error, None, f"{type(error).__name__} in the kernels' module: "),))
    _compile_at_once(module, request)
    kernels: list[KernelResources] = []
    diagnostics: list[Diagnostic] = []
    for launch in request.launches:
        try:
            kernel = _warmed(module, launch)
            kernels.append(_measured(launch, kernel, scratch))
            _compile_launcher(kernel)
        except Exception as error:  # noqa: BLE001 - Triton's have no common base
            diagnostics.append(_diagnostic(error, module, f"{launch.kernel}: "))
    return Result(
        kernels=tuple(kernels),
        diagnostics=tuple(dict.fromkeys(diagnostics)),
        archive=pack(scratch / "cache"),
    )


def _compile_at_once(module: Any, request: Request) -> None:
    """Fill Triton's cache with several launches at a time; what fails here is found, and explained, one by one after.

    Launches that Triton may take for one are left to one process: the others would do its work again.
    """
    try:
        apart = list({_alike(module, launch): launch for launch in request.launches}.values())
    except ValueError:
        return
    workers = min(request.parallel, len(apart))
    # The launches of a kernel mostly have one launcher between them.
    first = {launch.kernel: launch for launch in reversed(apart)}
    pids = []
    for number in range(workers if workers > 1 else 0):
        pid = os.fork()
        if pid:
            pids.append(pid)
            continue
        try:
            linux.die_with_parent()
            for launch in apart[number::workers]:
                with contextlib.suppress(Exception):
                    kernel = _warmed(module, launch)
                    if first[launch.kernel] is launch:
                        _compile_launcher(kernel)
        finally:
            os._exit(0)
    for pid in pids:
        os.waitpid(pid, 0)


def _alike(module: Any, launch: Launch) -> str:
    """The same text for launches that give Triton the same kernel to compile, another one for almost all others."""
    constants = {parameter.name for parameter in _function(module, launch).params if parameter.is_constexpr}
    kinds = {name: value if name in constants else _kind(value) for name, value in launch.arguments.items()}
    return repr((launch.kernel, sorted(kinds.items()), sorted(launch.options.items())))


def _kind(value: Any) -> Any:
    """What Triton tells apart in an argument."""
    if isinstance(value, bool | float):
        return type(value)
    if not isinstance(value, int) or value == 1:
        return value
    return value % 16 == 0, -(1 << 31) <= value < 1 << 31


def _target(name: str) -> Any:
    from triton.backends.compiler import GPUTarget

    return GPUTarget("cuda", capability(name), 32)


def _imported(source: str, scratch: Path) -> Any:
    path = scratch / f"{MODULE}.py"
    path.write_text(source, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(MODULE, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[MODULE] = module
    spec.loader.exec_module(module)
    return module


def _function(module: Any, launch: Launch) -> Any:
    """The kernel of ``launch``.

    Raises:
        ValueError: the module has none of that name.
    """
    from triton.runtime.jit import JITFunction

    function = getattr(module, launch.kernel, None)
    while function is not None and not isinstance(function, JITFunction):
        function = getattr(function, "fn", None)
    if function is None:
        raise ValueError(f"there is no function {launch.kernel!r} under @triton.jit at module level")
    return function


def _warmed(module: Any, launch: Launch) -> Any:
    function = _function(module, launch)
    parameters = set(function.arg_names)
    required = {parameter.name for parameter in function.params if not parameter.has_default}
    if unknown := launch.arguments.keys() - parameters:
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


def _compile_launcher(kernel: Any) -> None:
    """Compile the C code of the launch too, where this version of Triton has some: it links with the driver's library,
    so without that library it is left to the first launch."""
    from triton.backends.nvidia import driver

    if hasattr(driver, "make_launcher"):
        with contextlib.suppress(Exception):
            driver.CudaLauncher(kernel.src, kernel.metadata)


def _diagnostic(error: BaseException, module: Any, prefix: str) -> Diagnostic:
    """The innermost message of Triton's front end, at its line in the file; else the error as it is."""
    from triton.compiler.errors import CompilationError

    inner, compile_error = error, None
    while inner is not None:
        compile_error = inner if isinstance(inner, CompilationError) else compile_error
        inner = inner.__cause__  # type: ignore[assignment]
    if compile_error is None:
        line = error.lineno or 0 if isinstance(error, SyntaxError) else 0
        return Diagnostic(severity="error", message=f"{prefix}{_short(str(error) or type(error).__name__)}", line=line)
    cause = compile_error.__cause__ or compile_error.__context__
    message = compile_error.error_message or (str(cause) if cause is not None else str(compile_error))
    node = compile_error.node
    first = _first_line(module, compile_error.src)
    place = (first + node.lineno - 1, node.col_offset + 1) if first and hasattr(node, "lineno") else (0, 0)
    return Diagnostic(severity="error", message=f"{prefix}{_short(message)}", line=place[0], column=place[1])


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
