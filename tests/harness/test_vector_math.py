"""MKL's vector functions are chosen before code of a problem or a candidate runs: doing it in two threads goes wrong.

Where MKL keeps the processor's type is read out of the first instruction that loads it, which is what this torch has;
another build of MKL skips these tests.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from kernelswarm.hardware.device import Device
from kernelswarm.schemas import Verdict

from .conftest import Verify, problem_from

AVX512, NONE = 9, -1
"""Types of processors as MKL stores them before it translates them, and before it has asked."""
TYPE = '''
import ctypes
from pathlib import Path
import torch

def processor_type():
    """Where MKL keeps the type of the processor; None if this MKL does it in another way."""
    library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
    detect = getattr(library, "mkl_vml_serv_cpu_detect", None)
    if detect is None:
        return None
    address = ctypes.cast(detect, ctypes.c_void_p).value
    code = ctypes.string_at(address, 6)
    if code[:2] != bytes.fromhex("8b05"):
        return None
    return ctypes.c_int.from_address(address + 6 + int.from_bytes(code[2:], "little", signed=True))
'''
UNDECIDED = f"""{TYPE}
if processor_type().value == {NONE}:
    raise RuntimeError("the functions are still to be chosen")
"""
PROBLEM = """
shapes = {"main": dict(count=1 << 16)}

def inputs(generator, count):
    return [torch.randn(count, generator=generator)]

def reference(x):
    return x.exp()
"""


def _in_a_process(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", TYPE + code], capture_output=True, text=True, timeout=120)
    return done.stdout.strip()


@pytest.fixture(scope="module", autouse=True)
def readable() -> None:
    """Skips where the type cannot be read."""
    if _in_a_process("print(getattr(processor_type(), 'value', None))") != str(NONE):
        pytest.skip("this torch has no MKL, or another one")


def test_half_chosen_functions_are_off_by_more_than_any_bound() -> None:
    code = f"""
x = torch.linspace(-3, 0, 1 << 16)
processor_type().value = {AVX512}
print(float(((x.exp().double() - x.double().exp()) / x.double().exp()).abs().max()))
"""
    # What a thread gets that asks while another one has stored the type of a processor with AVX-512.
    assert float(_in_a_process(code)) > 1e-4


@pytest.mark.asyncio(loop_scope="session")
async def test_they_are_chosen_before_a_candidate_runs(verify: Verify) -> None:
    source = "import torch\n" + UNDECIDED + "\ndef kernel(x, w):\n"
    source += "    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w\n"
    assert (await verify(source)).verdict is Verdict.correct


@pytest.mark.asyncio(loop_scope="session")
async def test_they_are_chosen_before_a_problem_runs(device: Device, tmp_path: Path) -> None:
    problem = problem_from(tmp_path, "import torch\n" + UNDECIDED + PROBLEM, "undecided")
    assert (await device.validate_problem(problem)).shapes
