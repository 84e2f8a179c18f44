"""CUDA C++ candidates are compiled for sm_90a where NVRTC is, with or without a GPU."""

import ast
import ctypes
from pathlib import Path

import pytest

from kernelswarm.hardware.languages import cuda
from kernelswarm.hardware.languages._cuda_loader import NVRTC
from kernelswarm.hardware.languages.compiling import compile_candidate
from kernelswarm.schemas import Accelerator, HardwareFacts, Pool, PoolError

POOL = Pool(name="h200", platform="nvidia", languages=("cuda",), target="sm_90")
H200 = Accelerator(index=0, name="NVIDIA H200", uuid="GPU-1", target="sm_90", memory_bytes=1 << 37, shared_bytes=232448)
FACTS = HardwareFacts(
    device="NVIDIA H200", cores=2, isa=(), vector_bytes=0, l2_bytes=0, l3_bytes=0, memory_bytes=8 << 30,
    copy_gbps=4300.0, peak_gflops=5e4, accelerators=(H200,),
)  # fmt: skip

SOURCE = '''\
CUDA_SOURCE = r"""
extern "C" __global__ void scale(const float* x, float* out, int n, float by) {
  __shared__ float buffer[256];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) { buffer[threadIdx.x] = x[i]; out[i] = buffer[threadIdx.x] * by; }
  asm volatile("setmaxnreg.inc.sync.aligned.u32 40;");
}
"""
CUDA_FLAGS = ["-lineinfo", "-DWIDE=1"]
'''


def nvrtc_is_here() -> bool:
    loader: dict = {}
    exec(NVRTC, loader)
    try:
        return isinstance(loader["_nvrtc_library"](), ctypes.CDLL)
    except RuntimeError:
        return False


needs_nvrtc = pytest.mark.skipif(not nvrtc_is_here(), reason="no libnvrtc: pip install nvidia-cuda-nvrtc")


async def compiled(source: str, tmp_path: Path):
    return await cuda.compile(source, pool=POOL, hardware=FACTS, cache=tmp_path / "artifacts")


@needs_nvrtc
async def test_machine_code_of_this_generation_without_a_gpu(tmp_path):
    report, paths = await compiled(SOURCE, tmp_path)
    assert report.ok, report.log
    (artifact,) = report.artifacts
    literals = {node.targets[0].id: ast.literal_eval(node.value) for node in ast.parse(SOURCE).body}
    key = cuda.artifact_key(literals["CUDA_SOURCE"], ("-lineinfo", "-DWIDE=1"), "sm_90a")
    assert artifact.name == f"{key}.cubin"
    (kernel,) = report.kernels
    assert kernel.name == "scale" and 0 < kernel.registers < 64 and kernel.spill_bytes == 0
    assert kernel.shared_bytes >= 1024
    (sass,) = cuda.assembly(paths[artifact.sha256]).values()
    assert "code for sm_90a" in sass
    again, _ = await compiled(SOURCE, tmp_path)
    assert again.cached and again.kernels == report.kernels
    assert ".target sm_90a" in await cuda.intermediate(SOURCE, pool=POOL, hardware=FACTS)


@needs_nvrtc
async def test_what_is_wrong_is_named_at_its_line(tmp_path):
    report, paths = await compiled(SOURCE.replace("* by;", "* bye;"), tmp_path)
    assert not report.ok and not paths
    error = report.diagnostics[0]
    assert (error.severity, error.line) == ("error", 5) and 'identifier "bye" is undefined' in error.message


async def test_without_nvrtc_the_way_out_is_named(tmp_path):
    if nvrtc_is_here():
        pytest.skip("NVRTC is here")
    with pytest.raises(PoolError, match="pip install nvidia-cuda-nvrtc"):
        await compiled(SOURCE, tmp_path)


@pytest.mark.parametrize("flag", ["-I/etc", "--pre-include=/etc/passwd", "-arch=sm_80", "--ptxas-options=-v", "-ltoir"])
async def test_flags_that_reach_outside_are_refused(tmp_path, flag):
    report, _ = await compiled(SOURCE.replace("-lineinfo", flag), tmp_path)
    assert not report.ok and repr(flag) in report.diagnostics[0].message


async def test_a_candidate_without_native_code_is_fine(tmp_path):
    report, paths = await compiled("def kernel(x):\n    return x\n", tmp_path)
    assert report.ok and not paths and report.compiler == ""


def test_the_log_of_nvrtc_is_read():
    log = (
        'kernel.cu(3): error: identifier "foo" is undefined\n    foo = 1;\n    ^\n\n'
        'kernel.cu(7): warning #177-D: variable "y" was declared but never referenced\n'
        "/usr/include/cuda_fp16.h(12): error: something\n"
        'kernel.cu(1): catastrophic error: cannot open source file "nope.h"\n1 error detected\n'
    )
    assert [(d.severity, d.line) for d in cuda.read_log(log)] == [
        ("error", 3), ("warning", 7), ("error", 0), ("error", 1),
    ]  # fmt: skip
    assert cuda.read_log(log)[2].message == "something (in cuda_fp16.h)"


def test_targets_carry_their_suffix_from_hopper_on():
    assert [cuda.exact_target(name) for name in ("sm_80", "sm_90", "sm_90a", "sm_100")] == [
        "sm_80", "sm_90a", "sm_90a", "sm_100a",
    ]  # fmt: skip


def test_the_loader_is_a_module_of_its_own():
    tree = ast.parse('CUDA_SOURCE = ""\nCUDA_FLAGS = []\n' + cuda.LOADER)
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert imported == {"ctypes", "glob", "hashlib", "json", "os", "sys", "tempfile", "torch"}
    compile(tree, "candidate.py", "exec")


TRITON = """
import triton
import triton.language as tl

@triton.jit
def double(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, 2 * tl.load(x + at, mask=at < n), mask=at < n)
"""
LISTED = """
TRITON_LAUNCHES = [
    {"kernel": "double", "arguments": {"x": "*fp32", "out": "*fp32", "n": 4096, "BLOCK": 256}, "options": {}},
]
"""


@needs_nvrtc
@pytest.mark.parametrize("listed", [False, True])
async def test_cuda_beside_triton_has_both_compiled(tmp_path, listed):
    """A file of an outside author: one half of a block in each. Its Triton kernel could not be compiled anywhere."""
    pool = Pool(name="h200", platform="nvidia", languages=("triton", "cuda"), target="sm_90")
    source = SOURCE + TRITON + LISTED * listed
    report, _ = await compile_candidate(source, "cuda", pool=pool, hardware=FACTS, cache=tmp_path / "artifacts")
    assert report.ok, report.log
    assert [kernel.name for kernel in report.kernels] == ["scale", *(["double"] * listed)]
    assert report.is_late is not listed and len(report.names(".cubin")) == 1
