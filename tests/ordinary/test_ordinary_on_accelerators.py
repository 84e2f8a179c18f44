"""What an accelerator changes in ordinary processes, as far as a machine without one can tell: the rest is in
``tests/device/check_nvidia.py``."""

import asyncio
import io
import json
import shutil
from collections.abc import Callable, Collection
from pathlib import Path

import pytest

from kernelswarm.hardware.device import Device
from kernelswarm.hardware.harness.timing.effort import Effort
from kernelswarm.hardware.languages._triton_runtime import pack
from kernelswarm.hardware.machine.lease import Lease
from kernelswarm.hardware.ordinary import Missing, OrdinaryHost, OrdinaryHosts, Settings, program
from kernelswarm.hardware.ordinary.environment import compiling, ordinary_environment, own_environment
from kernelswarm.hardware.ordinary.host import CONSTRUCTOR
from kernelswarm.hardware.ordinary.trust import COMPILES, CONFINED, TRUSTED
from kernelswarm.schemas import Accelerator

from .conftest import HARDWARE, POOL, RIGHT, SCALE, Times

pytestmark = pytest.mark.asyncio(loop_scope="session")

ONE = Accelerator(index=0, name="Test GPU", uuid="GPU-1", target="sm_90", memory_bytes=1 << 33)
STARTS = """
import json, os, subprocess, torch
def kernel(x, w):
    def works(step):
        try:
            step()
            return True
        except OSError:
            return False
    raise RuntimeError(json.dumps({
        "program": works(lambda: subprocess.run(["/bin/true"])),
        "write itself": works(lambda: open(json.__file__, "a")),
        "write scratch": works(lambda: open("mine", "w")),
        "socket": works(lambda: __import__("socket").socket(2)),
    }))
"""
COMMAND = dict(
    name="scale",
    problem=SCALE,
    shape="main",
    is_module=False,
    seed=1,
    seeds=[2, 3],
    implementation="eager",
    file="",
    constructor=CONSTRUCTOR,
    device="cpu",
)


@pytest.fixture
def trusts(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Have the candidate's processes be trusted so far."""
    return lambda trust: monkeypatch.setattr(
        OrdinaryHost, "_trust", lambda self, name, text: trust if name == "candidate" else TRUSTED
    )


@pytest.mark.parametrize(("trust", "starts"), [(COMPILES, True), (CONFINED, False)])
async def test_who_compiles_its_kernels_may_start_programs_and_nothing_else(
    trust: str, starts: bool, trusts: Callable[[str], None], times: Times, host: OrdinaryHost
) -> None:
    trusts(trust)
    with pytest.raises(Missing) as missing:
        await times(STARTS)
    tried = json.loads(str(missing.value).partition("RuntimeError: ")[2])
    assert tried == {"program": starts, "write itself": False, "write scratch": True, "socket": False}
    assert ("seccomp_but_programs" in host.isolation.split("+")) is starts
    assert ("seccomp" in host.isolation.split("+")) is not starts


async def test_only_triton_files_on_an_accelerator_may(host: OrdinaryHost, home: Path) -> None:
    there = OrdinaryHost(Settings(POOL, HARDWARE, home, ("eager",), ONE), host.problem, host._facts)
    assert [there._trust("candidate", text) for text in ("import triton", RIGHT)] == [COMPILES, CONFINED]
    assert (there._trust("compile", ""), host._trust("candidate", "import triton")) == (TRUSTED, CONFINED)
    assert (there.settings.device, host.settings.device) == ("cuda:0", "cpu")


async def test_a_process_sees_its_accelerator_alone_and_keeps_kernels_in_its_scratch(tmp_path: Path) -> None:
    users = {"CUDA_VISIBLE_DEVICES": "0,1", "TRITON_CACHE_DIR": "/mine", "NVIDIA_TF32_OVERRIDE": "0"}
    own = own_environment(tmp_path / "1", tmp_path, on_accelerator=True)
    seen = ordinary_environment(users, accelerator=ONE.uuid) | own
    assert (seen["CUDA_VISIBLE_DEVICES"], seen["NVIDIA_TF32_OVERRIDE"]) == ("GPU-1", "0")
    assert seen["TRITON_CACHE_DIR"].startswith(str(tmp_path / "1"))
    assert (seen | compiling(tmp_path))["TRITON_CACHE_DIR"] == str(tmp_path / "triton")
    assert ordinary_environment(users)["CUDA_VISIBLE_DEVICES"] == "0,1"
    assert "TRITON_CACHE_DIR" not in own_environment(tmp_path / "1", tmp_path, on_accelerator=False)


async def test_kernels_that_were_compiled_lie_where_triton_looks_and_so_does_its_driver(
    host: OrdinaryHost, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", "triton")  # of an accelerator's process: in its scratch
    compiled = tmp_path / "compiled"
    (compiled / "KEY").mkdir(parents=True)
    (compiled / "KEY" / "rows.cubin").write_bytes(b"machine code")
    archive = home / "artifacts" / "file.triton"
    archive.parent.mkdir(exist_ok=True)
    archive.write_bytes(pack(compiled))
    (home / "triton" / "DRIVER").mkdir(parents=True)
    (home / "triton" / "DRIVER" / "cuda_utils.so").write_bytes(b"a driver")
    lists = "def kernel(x, w):\n    import glob\n    raise RuntimeError(str(sorted(glob.glob('triton/*/*'))))\n"
    here = OrdinaryHost(Settings(POOL, HARDWARE, home, ("eager",)), host.problem, host._facts)
    with pytest.raises(Missing, match=r"'triton/DRIVER/cuda_utils.so', 'triton/KEY/rows.cubin'"):
        await here.time(lists, Lease(POOL, home), Effort(processes=1), [archive])
    await here.close()
    shutil.rmtree(home / "triton")


async def test_every_answer_waits_for_the_device_that_of_an_empty_batch_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    waits: list[int] = []
    monkeypatch.setattr(program, "_synchronize", waits.append)
    # The inputs lie in main memory, all the same.
    monkeypatch.setattr(program, "HOST", "elsewhere")
    stream = io.BytesIO()
    process = program._Process(COMMAND, stream)
    before = len(waits)
    for command in ({"nothing": True}, {"nothing": False}):
        answer, _ = process.handle(
            {"do": "calls", "warm": 2, "calls": 3, "unseen": 0, "begin": "b", "token": "t", **command}
        )
        assert answer == {"token": "t"}
    assert stream.getvalue() == 2 * b'{"token": "b"}\n', "the begin is told when what warms up is done"
    assert waits[before:] == [0, 0, 0, 0]


async def test_who_is_forgotten_gets_no_further_processes_ready(
    host: OrdinaryHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []

    async def get_ready(self: OrdinaryHosts, lease: Lease, absent: Collection[str]) -> None:
        events.append(f"without {', '.join(absent)}")
        try:
            await asyncio.Event().wait()
        finally:
            events.append("ended")

    monkeypatch.setattr(OrdinaryHosts, "get_ready", get_ready)
    for accelerator in (ONE, None):
        async with Device(POOL, HARDWARE, tmp_path) as device:
            device._finished._settings = Settings(POOL, HARDWARE, tmp_path, ("eager",), accelerator)
            device.get_ordinary_ready(host.problem, host._facts, ["max_autotune"])
            await asyncio.sleep(0.1)
            await device.forget(host.problem)
    assert events == ["without max_autotune", "ended"], "a processor has no time to spare"


async def test_a_device_that_is_not_there_is_a_sentence(host: OrdinaryHost, home: Path) -> None:
    there = OrdinaryHost(Settings(POOL, HARDWARE, home, ("eager",), ONE), host.problem, host._facts)
    with pytest.raises(Missing, match="the process of eager fails to load: "):
        await there.time(RIGHT, Lease(POOL, home), effort=Effort(processes=1))
    await there.close()
