"""The code in the documents compiles: what a model copies must not be what breaks."""

import ast
import ctypes
import re
import textwrap
from pathlib import Path

import pytest

from kernelswarm.hardware.languages import cuda, triton
from kernelswarm.hardware.languages._cuda_loader import NVRTC
from kernelswarm.knowledge import corpus
from kernelswarm.schemas import Accelerator, HardwareFacts, Pool

POOL = Pool(name="h200", platform="nvidia", languages=("triton", "cuda"), target="sm_90")
H200 = Accelerator(index=0, name="NVIDIA H200", uuid="GPU-1", target="sm_90", memory_bytes=1 << 37, shared_bytes=232448)
FACTS = HardwareFacts(
    device="NVIDIA H200", cores=2, isa=("sm_90",), vector_bytes=0, l2_bytes=0, l3_bytes=0, memory_bytes=8 << 30,
    copy_gbps=4300.0, peak_gflops=5e4, accelerators=(H200,),
)  # fmt: skip
TEXTS = {document.path: document.text for document in corpus()}
BLOCK = re.compile(r"(?:^ {4,}.*\n|^\n+(?= {4}))+", re.MULTILINE)
FUNCTION = re.compile(r"__device__|template")
HEADERS = "#include <cuda_bf16.h>\n"


def blocks(path: str) -> list[str]:
    """The indented code of a document."""
    return [textwrap.dedent(match[0]).strip() + "\n" for match in BLOCK.finditer(TEXTS[path])]


def nvrtc_is_here() -> bool:
    loader: dict = {}
    exec(NVRTC, loader)
    try:
        return isinstance(loader["_nvrtc_library"](), ctypes.CDLL)
    except RuntimeError:
        return False


needs_nvrtc = pytest.mark.skipif(not nvrtc_is_here(), reason="no libnvrtc: pip install nvidia-cuda-nvrtc")


async def test_the_example_of_the_triton_rules_compiles(tmp_path: Path):
    (example,) = blocks("constraints/triton.md")
    report, _ = await triton.compile(example, pool=POOL, hardware=FACTS, cache=tmp_path / "artifacts")
    assert report.ok and [kernel.name for kernel in report.kernels] == ["scale"], report


@needs_nvrtc
async def test_the_example_of_the_cuda_rules_compiles(tmp_path: Path):
    (example,) = blocks("constraints/cuda.md")
    report, _ = await cuda.compile(example, pool=POOL, hardware=FACTS, cache=tmp_path / "artifacts")
    assert report.ok and [kernel.name for kernel in report.kernels] == ["scale"], report


DEVICE_CODE = [path for path in TEXTS if any(FUNCTION.match(block) for block in blocks(path))]


@needs_nvrtc
@pytest.mark.parametrize("path", DEVICE_CODE)
async def test_device_functions_compile(tmp_path: Path, path: str):
    functions = "\n".join(block for block in blocks(path) if FUNCTION.match(block))
    kernel = 'extern "C" __global__ void none() {}'
    source = f'CUDA_SOURCE = r"""\n{HEADERS}{functions}{kernel}\n"""\nCUDA_FLAGS = []\n'
    report, _ = await cuda.compile(source, pool=POOL, hardware=FACTS, cache=tmp_path / "artifacts")
    assert report.ok, report.diagnostics


def test_there_are_device_functions():
    assert len(DEVICE_CODE) >= 5


TRITON = [path for path in TEXTS if any("@triton.jit" in block for block in blocks(path))]
SIZES = {"M": 4096, "N": 4096, "K": 4096}
LAUNCHES: dict[str, dict[str, object]] = {
    "triton/model.md": {
        "kernel": "rows",
        "arguments": {"x": "*bf16", "out": "*bf16", "n": 4096, "BLOCK": 4096},
        "options": {"num_warps": 8},
    },
    "triton/matmul.md": {
        "kernel": "linear",
        "arguments": {
            **dict.fromkeys(("a", "b", "bias", "c"), "*bf16"),
            **SIZES,
            "BM": 128,
            "BN": 256,
            "BK": 64,
            "G": 8,
        },
        "options": {"num_warps": 8, "num_stages": 3},
    },
    "triton/persistent.md": {
        "kernel": "product",
        "arguments": {
            "a": {"descriptor": "bf16", "shape": [4096, 4096], "block": [128, 64]},
            "b": {"descriptor": "bf16", "shape": [4096, 4096], "block": [128, 64]},
            "c": {"descriptor": "bf16", "shape": [4096, 4096], "block": [128, 128]},
            **SIZES,
            **{"PROGRAMS": 132, "BM": 128, "BN": 128, "BK": 64},
        },
        "options": {"num_warps": 8, "num_stages": 3},
    },
    "hardware/nvidia/streaming.md": {
        "kernel": "fused",
        "arguments": {"x": "*bf16", "y": "*bf16", "out": "*bf16", "n": 1 << 20, "BLOCK": 1024},
        "options": {"num_warps": 4},
    },
}


@pytest.mark.parametrize("path", TRITON)
def test_triton_functions_are_python(path: str):
    for block in blocks(path):
        if "@triton.jit" in block:
            ast.parse(block)


@pytest.mark.parametrize("path", LAUNCHES)
async def test_triton_kernels_compile_with_the_options_that_the_text_names(tmp_path: Path, path: str):
    (kernel,) = [block for block in blocks(path) if block.startswith("@triton.jit")]
    source = f"import triton\nimport triton.language as tl\n\nTRITON_LAUNCHES = {[LAUNCHES[path]]!r}\n\n\n{kernel}"
    report, _ = await triton.compile(source, pool=POOL, hardware=FACTS, cache=tmp_path / "artifacts")
    assert report.ok, report.diagnostics
    assert all(kernel.spill_bytes == 0 for kernel in report.kernels)
