"""The text a CUDA C++ candidate carries to load and launch its native code, so that the file runs without kernelswarm.

It talks to NVRTC and to CUDA's driver through ctypes: both are wherever a CUDA build of torch is, in every version.
"""

BASE_FLAGS = ("--std=c++17", "--device-as-default-execution-space")
"""Options every candidate is compiled with, before its own ``CUDA_FLAGS``."""

_IMPORTS = """\
import ctypes
import glob
import hashlib
import json
import os
import sys
import tempfile
"""

_NVRTC = '''


def _nvrtc_library():
    """NVRTC as torch's wheels or CUDA's toolkit brought it."""
    folders = [os.path.join(path, "nvidia", "*", "lib") for path in sys.path]
    home = os.environ.get("CUDA_HOME") or "/usr/local/cuda"
    folders += [os.path.join(home, "lib64"), os.path.join(home, "targets", "*", "lib")]
    names = [name for folder in folders for name in sorted(glob.glob(os.path.join(folder, "libnvrtc.so.*")), key=len)]
    for name in [*names, "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"]:
        try:
            return ctypes.CDLL(name)
        except OSError:
            pass
    raise RuntimeError("there is no libnvrtc here: `pip install nvidia-cuda-nvrtc`, or set CUDA_HOME")


def _nvrtc_includes():
    """Folders with CUDA's headers (cuda_fp16.h, mma.h, …); none is needed for plain code."""
    home = os.environ.get("CUDA_HOME") or "/usr/local/cuda"
    folders = [folder for path in sys.path for folder in glob.glob(os.path.join(path, "nvidia", "*", "include"))]
    folders += [os.path.join(home, "include"), os.path.join(home, "include", "cccl")]
    folders += [os.path.join(folder, "cccl") for folder in folders]
    return ["-I" + folder for folder in dict.fromkeys(folders) if os.path.isdir(folder)]


def _nvrtc_compile(source, flags, target):
    """``source`` for ``target`` (``sm_90a``): (cubin, PTX, log); the cubin is empty if it does not compile."""
    nvrtc = _nvrtc_library()
    options = ["--gpu-architecture=" + target, *%BASE%, *_nvrtc_includes(), *flags]
    program = ctypes.c_void_p()
    given = [option.encode() for option in options]

    def call(name, *arguments):
        code = getattr(nvrtc, name)(*arguments)
        if code and name != "nvrtcCompileProgram":
            nvrtc.nvrtcGetErrorString.restype = ctypes.c_char_p
            raise RuntimeError(name + ": " + nvrtc.nvrtcGetErrorString(code).decode())
        return code

    def read(what):
        size = ctypes.c_size_t()
        call("nvrtcGet" + what + "Size", program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        call("nvrtcGet" + what, program, buffer)
        return buffer.raw

    call("nvrtcCreateProgram", ctypes.byref(program), source.encode(), b"kernel.cu", 0, None, None)
    try:
        failed = call("nvrtcCompileProgram", program, len(given), (ctypes.c_char_p * len(given))(*given))
        log = read("ProgramLog").rstrip(b"\\0").decode("utf-8", "replace")
        return (b"", b"", log) if failed else (read("CUBIN"), read("PTX").rstrip(b"\\0"), log)
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
'''

_LAUNCHING = '''


_functions = {}


def _function(name):
    """Kernel ``name`` of CUDA_SOURCE on the current device: its handle in CUDA's driver."""
    device = torch.cuda.current_device()
    if (device, None) not in _functions:
        # The driver works in the context that is current: torch's, once torch has made one.
        torch.cuda.current_stream().synchronize()
        module = ctypes.c_void_p()
        _check(_driver().cuModuleLoadData(ctypes.byref(module), _binary()))
        _functions[device, None] = module
    if (device, name) not in _functions:
        function = ctypes.c_void_p()
        _check(_driver().cuModuleGetFunction(ctypes.byref(function), _functions[device, None], name.encode()), name)
        _functions[device, name] = function
    return _functions[device, name]


def _launch(name, grid, block, *arguments, shared=0):
    """Launch kernel ``name`` on torch's current stream, with ``shared`` bytes of dynamic shared memory.

    Tensors are passed as pointers, int as 32-bit int, float as float, bool as bool; anything of ctypes as it is.
    """
    function = _function(name)
    if shared > 48 << 10 and (name, shared) not in _functions:
        _check(_driver().cuFuncSetAttribute(function, 8, shared), name)
        _functions[name, shared] = True
    values = [_value(argument) for argument in arguments]
    pointers = (ctypes.c_void_p * len(values))(*map(ctypes.addressof, values))
    sizes = [*grid, *(1,) * (3 - len(grid)), *block, *(1,) * (3 - len(block))]
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
    _check(_driver().cuLaunchKernel(function, *sizes, shared, stream, pointers, None), name)


def _value(argument):
    if isinstance(argument, torch.Tensor):
        return ctypes.c_void_p(argument.data_ptr())
    if isinstance(argument, bool):
        return ctypes.c_bool(argument)
    if isinstance(argument, int):
        return ctypes.c_int(argument)
    return ctypes.c_float(argument) if isinstance(argument, float) else argument


def _driver():
    if "driver" not in _functions:
        _functions["driver"] = ctypes.CDLL("libcuda.so.1")
    return _functions["driver"]


def _check(code, what="CUDA"):
    if code:
        text = ctypes.c_char_p()
        _driver().cuGetErrorString(code, ctypes.byref(text))
        raise RuntimeError(f"{what}: {(text.value or b'unknown error').decode()}")


def _binary():
    """CUDA_SOURCE for this device: $KERNELSWARM_ARTIFACTS has it, or it is compiled once into the user's cache."""
    major, minor = torch.cuda.get_device_capability()
    target = f"sm_{major}{minor}{'a' if major >= 9 else ''}"
    text = json.dumps(["cuda", CUDA_SOURCE, CUDA_FLAGS, target], separators=(",", ":"))
    name = hashlib.sha256(text.encode()).hexdigest() + ".cubin"
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    folder = os.path.join(base, "kernelswarm-kernels", "cuda")
    for place in filter(None, (os.environ.get("KERNELSWARM_ARTIFACTS"), folder)):
        if os.path.exists(os.path.join(place, name)):
            with open(os.path.join(place, name), "rb") as file:
                return file.read()
    cubin, _, log = _nvrtc_compile(CUDA_SOURCE, CUDA_FLAGS, target)
    if not cubin:
        raise RuntimeError("this kernel does not compile here:\\n" + log)
    _keep(cubin, folder, name)
    return cubin


def _keep(cubin, folder, name):
    """Write it whole or not at all; a folder that cannot be written only costs the next start a compilation."""
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, delete=False) as file:
            file.write(cubin)
        os.replace(file.name, os.path.join(folder, name))
    except OSError:
        pass
'''

_BASE = f'"{" ".join(BASE_FLAGS)}".split()'

NVRTC = (_IMPORTS + _NVRTC).replace("%BASE%", _BASE)
"""Python source that defines ``_nvrtc_compile(source, flags, target) -> (cubin, ptx, log)``; standard library alone."""

LOADER = (_IMPORTS + "\nimport torch\n" + _NVRTC + _LAUNCHING).replace("%BASE%", _BASE)
"""Python source that defines ``_launch(name, grid, block, *arguments, shared=0)``. The candidate puts ``CUDA_SOURCE``
and ``CUDA_FLAGS`` (both literals, the latter possibly empty) anywhere at module level beside it. Needs torch and, where
the artifact is not at hand, NVRTC."""
