"""Wrong and broken kernels: each is refused under the right name, and costs only itself. Cheats: test_cheats.py."""

from collections.abc import Awaitable, Callable

import pytest

from kernelswarm.hardware.device import Device
from kernelswarm.schemas import Problem, Verdict, VerifyReport, encode

pytestmark = pytest.mark.asyncio(loop_scope="session")

Verify = Callable[[str], Awaitable[VerifyReport]]

RIGHT = "x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w"

WRONG: dict[str, tuple[Verdict, str]] = {
    "zeros": (Verdict.wrong_numbers, "def kernel(x, w): return torch.zeros_like(x)"),
    "the input": (Verdict.wrong_numbers, "def kernel(x, w): return x.clone()"),
    "nan": (Verdict.wrong_numbers, "def kernel(x, w): return reference(x, w) * float('nan')"),
    "another dtype": (Verdict.wrong_type, "def kernel(x, w): return reference(x, w).double()"),
    "two outputs": (Verdict.wrong_type, "def kernel(x, w): return reference(x, w), x"),
    "a list of floats": (Verdict.wrong_type, "def kernel(x, w): return reference(x, w).tolist()"),
    "a million things": (Verdict.wrong_type, "def kernel(x, w): return [object()] * 1_000_000"),
    "a list that holds itself": (Verdict.wrong_type, "def kernel(x, w): out = []; out.append(out); return out"),
    "nothing": (Verdict.wrong_type, "def kernel(x, w): reference(x, w)"),
    "a meta tensor": (Verdict.wrong_type, "def kernel(x, w): return torch.empty_like(x, device='meta')"),
    "another shape": (Verdict.wrong_shape, "def kernel(x, w): return reference(x, w)[:-1]"),
    "raises": (Verdict.runtime_error, "def kernel(x, w): raise ValueError('no')"),
    "exits by exception": (Verdict.runtime_error, "def kernel(x, w): raise SystemExit(0)"),
    "raises what has no text": (
        Verdict.runtime_error,
        "class Odd(Exception):\n    def __str__(self): raise self\ndef kernel(x, w): raise Odd",
    ),
    "raises what is no text": (Verdict.runtime_error, "def kernel(x, w): raise ValueError('\\udcff')"),
    "a sparse tensor": (Verdict.wrong_type, "def kernel(x, w): return reference(x, w).to_sparse()"),
    "a number beyond all messages": (Verdict.wrong_type, "def kernel(x, w): return 10**1000"),
    "does not import": (Verdict.load_error, "import nowhere"),
    "lacks kernel": (Verdict.load_error, "def kernal(x, w): return x"),
    "runs a program": (
        Verdict.runtime_error,
        "import subprocess\ndef kernel(x, w): return subprocess.run(['true'])",
    ),
}


async def test_what_raises_names_the_innermost_line_of_the_candidate(verify: Verify) -> None:
    source = "import torch\ndef inner(x):\n    return x.nope\ndef kernel(x, w):\n    return inner(x)\n"
    report = await verify(source)
    assert report.evidence is not None
    assert report.evidence.message.endswith("has no attribute 'nope' (line 3)")


@pytest.mark.parametrize("name", WRONG)
async def test_is_refused_by_name(verify: Verify, name: str) -> None:
    verdict, body = WRONG[name]

    report = await verify(f"import torch\ndef reference(x, w): return {RIGHT}\n{body}\n")

    assert report.verdict is verdict, report.evidence
    assert report.evidence is not None and report.evidence.message
    assert encode(report)


async def test_wrong_numbers_point_at_the_element(verify: Verify) -> None:
    report = await verify(
        f"import torch\ndef kernel(x, w):\n    out = {RIGHT}\n    out[3, 5] += x.shape[0] == 64\n    return out\n"
    )

    assert report.evidence is not None
    assert report.evidence.element == (3, 5)
    assert float(report.evidence.got) == pytest.approx(float(report.evidence.expected) + 1, abs=1e-5)
    assert report.evidence.shape == "main"
    assert report.evidence.seed == report.cases[-1].seed


async def test_a_crash_names_its_signal(verify: Verify) -> None:
    report = await verify("import ctypes\ndef kernel(x, w): ctypes.string_at(0)\n")

    assert report.evidence is not None
    assert "SIGSEGV" in report.evidence.message


async def test_output_is_kept_only_at_its_end(verify: Verify) -> None:
    report = await verify("def kernel(x, w):\n    print('a' * 10**6 + 'the end')\n    raise ValueError\n")

    assert report.verdict is Verdict.runtime_error
    assert report.evidence is not None
    assert len(report.evidence.log) < 20_000


async def test_no_secret_is_visible(
    device: Device, problem: Problem, monkeypatch: pytest.MonkeyPatch, verify: Verify
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "secret")
    source = f"""
import os, pathlib, torch
def kernel(x, w):
    seen = dict(os.environ)
    for path in pathlib.Path("/proc").glob("[0-9]*/environ"):
        try:
            seen[str(path)] = path.read_text()
        except OSError:
            pass
    assert not any("ANTHROPIC" in key + value for key, value in seen.items()), "visible"
    return {RIGHT}
"""
    report = await verify(source)

    assert report.verdict is Verdict.correct, report.evidence


async def test_files_outside_its_scratch_folder_cannot_be_written(device: Device, verify: Verify) -> None:
    source = f"""
import os, torch
def kernel(x, w):
    open("mine", "w").write("fine")
    for folder in (os.environ["KERNELSWARM_ARTIFACTS"], os.path.dirname(torch.__file__), "/tmp", "/dev/shm"):
        try:
            open(os.path.join(folder, "kernelswarm-test-leak"), "w")
        except OSError:
            continue
        raise RuntimeError(folder + " can be written")
    return {RIGHT}
"""
    report = await verify(source)
    if "mountns" not in report.isolation:
        pytest.skip("this kernel permits no mount namespaces")

    assert report.verdict is Verdict.correct, report.evidence


async def test_kernels_that_are_compiled_at_their_first_call_have_a_cache_of_their_own(verify: Verify) -> None:
    """Plain ``@triton.jit``, without a launch table: Triton writes what it compiles."""
    source = f"""
import os, pathlib, torch
def kernel(x, w):
    entry = pathlib.Path(os.environ["TRITON_CACHE_DIR"], "key", "kernel.cubin")
    entry.parent.mkdir(parents=True, exist_ok=True)
    entry.write_bytes(b"cubin")
    assert entry.is_relative_to(pathlib.Path.cwd()), entry
    return {RIGHT}
"""
    report = await verify(source)

    assert report.verdict is Verdict.correct, report.evidence
