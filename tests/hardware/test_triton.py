"""Triton candidates are compiled for sm_90 on a machine without a GPU; what a launch will look up is then there."""

import asyncio
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from waiting import eventually, has_ended

from kernelswarm.hardware.languages import _triton_children, triton
from kernelswarm.hardware.processes.fork_server import FORK_SERVERS
from kernelswarm.schemas import Accelerator, HardwareFacts, Pool

POOL = Pool(name="h200", platform="nvidia", languages=("triton",), target="sm_90")
H200 = Accelerator(index=0, name="NVIDIA H200", uuid="GPU-1", target="sm_90", memory_bytes=1 << 37, shared_bytes=232448)
FACTS = HardwareFacts(
    device="NVIDIA H200", cores=2, isa=(), vector_bytes=0, l2_bytes=0, l3_bytes=0, memory_bytes=8 << 30,
    copy_gbps=4300.0, peak_gflops=5e4, accelerators=(H200,),
)  # fmt: skip

ROWS = """\
import torch
import triton
import triton.language as tl

TRITON_LAUNCHES = [
    {
        "kernel": "rows",
        "arguments": {"x": "*bf16", "out": "*bf16", "columns": 4096, "eps": 1e-06, "BLOCK": 4096},
        "options": {"num_warps": 8, "num_stages": 2},
    },
    {"kernel": "rows", "arguments": {"x": "*bf16 unaligned", "out": "*bf16", "columns": 1, "eps": 0.5, "BLOCK": 16}},
]
SCALE = tl.constexpr(2.0)
open("/tmp/was-run", "w")


@triton.jit
def scaled(v):
    return v * SCALE


@triton.jit
def rows(x, out, columns, eps, BLOCK: tl.constexpr):
    at = tl.program_id(0) * columns + tl.arange(0, BLOCK)
    v = scaled(tl.load(x + at).to(tl.float32))
    tl.store(out + at, v / tl.sqrt(tl.sum(v * v, 0) / columns + eps))
"""

MATMUL = """\
import triton
import triton.language as tl

TRITON_LAUNCHES = [
    {
        "kernel": "product",
        "arguments": {
            "a": {"descriptor": "bf16", "shape": [8192, 4096], "block": [128, 64]},
            "b": {"descriptor": "bf16", "shape": [4096, 8192], "block": [64, 128]},
            "c": "*bf16", "n": 8192, "k": 4096, "DTYPE": "tl.bfloat16",
        },
        "options": {"num_warps": 8, "num_stages": %d},
    }
]


@triton.jit
def product(a, b, c, n, k, DTYPE: tl.constexpr):
    row, column = tl.program_id(0) * 128, tl.program_id(1) * 128
    sums = tl.zeros((128, 128), tl.float32)
    for at in range(0, k, 64):
        sums = tl.dot(a.load([row, at]), b.load([at, column]), sums)
    places = c + (row + tl.arange(0, 128))[:, None] * n + column + tl.arange(0, 128)[None, :]
    tl.store(places, sums.to(DTYPE))
"""

# What the process on the GPU does, up to the launch itself: the real import, real tensors, Triton's own look-up.
LOOKS_UP = """
import importlib.util, sys
from pathlib import Path
from kernelswarm.hardware.languages import _triton_ahead, _triton_runtime
archive, cache, file = map(Path, sys.argv[1:])
_triton_runtime.unpack(archive, cache)
_triton_runtime.use(cache)
import torch, triton
from triton.backends.compiler import GPUTarget
hits = []
triton.knobs.compilation.listener = lambda *, cache_hit, **_: hits.append(cache_hit)
triton.runtime.driver.set_active(_triton_ahead._Driver(GPUTarget("cuda", 90, 32)))
spec = importlib.util.spec_from_file_location("candidate", file)
module = importlib.util.module_from_spec(spec)
sys.modules["candidate"] = module
spec.loader.exec_module(module)
x = torch.empty(65, 4096, dtype=torch.bfloat16)
module.rows.warmup(x, x, x.shape[1], 1e-6, BLOCK=4096, num_warps=8, num_stages=2, grid=(1,))
module.rows.warmup(x.view(-1)[1:], x, 1, 0.5, BLOCK=16, grid=(1,))
module.rows.warmup(x, x, 17, 0.5, BLOCK=16, grid=(1,))
print(*hits)
"""


COMPILES = """
import io, sys, tarfile
from pathlib import Path
from kernelswarm.hardware.languages import _triton_ahead, _triton_source
source = sys.stdin.read()
launches, kernels = _triton_source.launches_of(source), _triton_source.kernels_only(source)
request = _triton_source.Request(target="sm_90", launches=launches, kernels=kernels, parallel=int(sys.argv[2]))
result = _triton_ahead.compile_request(request, Path(sys.argv[1]))
names = tarfile.open(fileobj=io.BytesIO(result.archive)).getnames()
print(len(result.kernels), len(result.diagnostics), sum(name.endswith(".cubin") for name in names))
"""

SUPERVISES = """
import asyncio, sys
from pathlib import Path
from kernelswarm.hardware.languages import _triton_children, triton
from kernelswarm.hardware.processes.fork_server import FORK_SERVERS
from kernelswarm.schemas import HardwareFacts, Pool
pool = Pool(name="h200", platform="nvidia", languages=("triton",), target="sm_90")
facts = HardwareFacts(
    device="", cores=1, isa=(), vector_bytes=0, l2_bytes=0, l3_bytes=0, memory_bytes=8 << 30, copy_gbps=1, peak_gflops=1
)
async def main():
    source = Path(sys.argv[1]).read_text()
    report, _ = await triton.compile(source, pool=pool, hardware=facts, cache=Path(sys.argv[2]))
    assert report.ok
    print(FORK_SERVERS.living(_triton_children.fork_server_program("sm_90")).pid, flush=True)
    await asyncio.sleep(600)
asyncio.run(main())
"""


async def compiled(source: str, tmp_path: Path, facts: HardwareFacts = FACTS):
    return await triton.compile(source, pool=POOL, hardware=facts, cache=tmp_path / "artifacts")


def fork_server() -> int:
    """Process id of the server that forks the compilers of this file's pools."""
    server = FORK_SERVERS.living(_triton_children.fork_server_program("sm_90"))
    assert server is not None
    return server.pid


def replaced(source: str, old: str, new: str) -> str:
    assert old in source
    return source.replace(old, new)


async def test_a_launch_finds_what_was_compiled_without_a_gpu(tmp_path):
    source = replaced(ROWS, "/tmp/was-run", str(tmp_path / "was-run"))
    report, paths = await compiled(source, tmp_path)
    assert report.ok and not report.diagnostics and report.compiler.startswith("triton 3.")
    assert not (tmp_path / "was-run").exists(), "compiling runs nothing of the file but its kernels"
    (artifact,) = report.artifacts
    assert artifact.name == triton.artifact_key(source, "sm_90") + ".triton"
    file = tmp_path / "elsewhere.py"
    file.write_text(source)
    command = [sys.executable, "-c", LOOKS_UP, str(paths[artifact.sha256]), str(tmp_path / "cache"), str(file)]
    environment = {**os.environ, "TRITON_CACHE_DIR": str(tmp_path / "other")}
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.split() == ["True", "True", "False"], "listed launches hit, the third was not listed"


async def test_it_tells_what_each_launch_takes(tmp_path):
    report, paths = await compiled(MATMUL % 3, tmp_path)
    (kernel,) = report.kernels
    assert (kernel.name, kernel.warps, kernel.stages, kernel.spill_bytes) == ("product", 8, 3, 0)
    assert 32 <= kernel.registers <= 255 and kernel.shared_bytes >= 3 * 2 * 128 * 64 * 2
    (archive,) = paths.values()
    texts = triton.assembly(archive)
    (ptx,) = (text for name, text in texts.items() if name.endswith(".ptx"))
    (sass,) = (text for name, text in texts.items() if name.endswith(".sass"))
    assert ".target sm_90a" in ptx and "cp.async.bulk.tensor" in ptx and "HGMMA" in sass


async def test_the_second_time_it_is_there(tmp_path):
    first, _ = await compiled(ROWS, tmp_path)
    again, paths = await compiled(ROWS, tmp_path)
    assert again.cached and again.kernels == first.kernels and set(paths) == {again.artifacts[0].sha256}


async def test_what_does_not_fit_the_device_is_an_error(tmp_path):
    report, paths = await compiled(MATMUL % 9, tmp_path)
    assert not report.ok and not paths
    assert any("bytes of shared memory, a block has 232448" in diagnostic.message for diagnostic in report.diagnostics)


@pytest.mark.parametrize(
    ("old", "new", "message", "line"),
    [
        ("tl.sqrt(", "tl.sqroot(", "rows: .*sqroot", 26),
        ("return v * SCALE", "return v * MISSING", "MISSING", 19),
        ('"kernel": "rows", "arg', '"kernel": "row", "arg', "row: there is no function 'row' under @triton.jit", 0),
        ('"eps": 1e-06, ', "", "rows: the launch gives no value for eps", 0),
        ('"eps": 1e-06', '"eps": 1e-06, "e": 1', "rows: it has no parameter 'e'; there is x, out, columns", 0),
        ('"x": "*bf16", ', '"x": "*bf61", ', "'bf61' is no element type; there is i1, ", 0),
        ('"num_warps": 8', '"num_warp": 8', "num_warp was specified but unrecognised", 0),
        ("def scaled(v):", "def scaled(v:", "not valid Python", 18),
        ("TRITON_LAUNCHES = [", "TRITON_LAUNCHES = list() + [", "must be a literal", 5),
        ('"kernel": "rows", "arg', '"name": "rows", "arg', "TRITON_LAUNCHES is wrong: .*name", 0),
    ],
)  # fmt: skip
async def test_what_is_wrong_is_named_at_its_line(tmp_path, old, new, message, line):
    report, paths = await compiled(replaced(ROWS, old, new), tmp_path)
    assert not report.ok and not paths
    diagnostic = report.diagnostics[0]
    assert diagnostic.severity == "error" and "\n" not in diagnostic.message
    assert re.search(message, diagnostic.message)
    assert diagnostic.line == line


async def test_a_file_without_the_list_is_left_to_triton(tmp_path):
    report, paths = await compiled("import triton\n\n@triton.jit\ndef f(x):\n    pass\n", tmp_path)
    assert report.ok and not paths and "compiled at their first call" in report.diagnostics[0].message
    report, _ = await compiled("def kernel(x):\n    return x\n", tmp_path)
    assert report.ok and not report.diagnostics and report.compiler == ""


async def test_an_endless_kernel_is_stopped(tmp_path):
    source = replaced(ROWS, "tl.constexpr(2.0)", "tl.constexpr(9**9**9)")
    pool = Pool(name="h200", platform="nvidia", languages=("triton",), target="sm_90", candidate_seconds=3)
    report, _ = await triton.compile(source, pool=pool, hardware=FACTS, cache=tmp_path / "artifacts")
    assert not report.ok and "stopped after 3 s" in report.diagnostics[0].message


async def test_candidates_share_one_fork_server_and_one_that_died_is_replaced(tmp_path):
    async def server_after(number: int) -> int:
        report, _ = await compiled(f"{ROWS}# {number}\n", tmp_path)
        assert report.ok and not report.cached
        return fork_server()

    first = await server_after(1)
    assert await server_after(2) == first
    os.kill(first, signal.SIGKILL)
    assert await server_after(3) != first


async def test_what_was_being_compiled_when_the_server_died_is_compiled_again(tmp_path):
    await compiled(ROWS, tmp_path)
    server = fork_server()
    compiling = asyncio.create_task(compiled(f"{ROWS}# another\n", tmp_path))
    assert await eventually(lambda: asyncio.sleep(0, bool(_triton_children._under_way) or compiling.done()), True)
    os.kill(server, signal.SIGKILL)
    report, _ = await compiling
    assert report.ok, report.diagnostics


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="needs pidfd_open to wait for a process that is not ours")
async def test_kill_9_of_the_supervisor_ends_the_fork_server(tmp_path):
    file = tmp_path / "candidate.py"
    file.write_text(ROWS)
    supervisor = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", SUPERVISES, str(file), str(tmp_path / "artifacts")), stdout=subprocess.PIPE
    )
    assert supervisor.stdout is not None
    handle = os.pidfd_open(int(await supervisor.stdout.readline()))
    supervisor.send_signal(signal.SIGKILL)
    await supervisor.wait()
    ended = await asyncio.to_thread(has_ended, handle)
    os.close(handle)
    assert ended


@pytest.mark.parametrize("parallel", [1, 2, 8])
def test_compiling_several_launches_at_once_gives_the_same_entries(tmp_path, parallel):
    """Three launches of which two are the same to Triton: two kernels, however many are compiled at once."""
    like = replaced(
        ROWS,
        "\n]\nSCALE",
        '\n    {"kernel": "rows", "options": {"num_warps": 8, "num_stages": 2}, "arguments": '
        '{"x": "*bf16", "out": "*bf16", "columns": 8192, "eps": 1e-03, "BLOCK": 4096}},\n]\nSCALE',
    )
    source = replaced(like, 'open("/tmp/was-run", "w")', "")
    folder = tmp_path / "scratch"
    folder.mkdir()
    command = [sys.executable, "-c", COMPILES, str(folder), str(parallel)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, input=source)
    assert done.stdout.split() == ["3", "0", "2"], "three records, no fault, two kernels in the archive"
