"""Files that compile for themselves: built once in the compiler's jail, judged where no program may start."""

import asyncio
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from kernelswarm.hardware.device import Device
from kernelswarm.hardware.dropin import finish
from kernelswarm.hardware.harness.timing.effort import Effort
from kernelswarm.hardware.languages.cpp import LOADER
from kernelswarm.hardware.languages.program_runs import (
    NotRecorded,
    Player,
    Recorder,
    instead_of_programs,
    starts_programs,
)
from kernelswarm.schemas import CompileReport, Problem, Verdict, VerifyReport

WRITES = """
import os, subprocess, sys, tempfile, uuid
folder = tempfile.mkdtemp()
code = "import sys; print('made', end='', file=open(sys.argv[1], 'w')); print('done'); print('warned', file=sys.stderr)"
path = os.path.join(folder, "made.txt")
ran = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True)
status = subprocess.call([sys.executable, "-c", "raise SystemExit(3)"])
printed = subprocess.check_output([sys.executable, "-c", "print(input())"], input="given", text=True)
shell = os.system("exit 4")
link = os.path.join(folder, "link.txt")
subprocess.check_call(["ln", "-s", path, link])
beside = f"{uuid.uuid4().hex}.txt"
subprocess.check_call(f"echo beside > {beside}", shell=True)
with open(link) as file, open(beside) as other:
    made = file.read(), other.read()
"""

BUILDS = """
import ctypes, os, subprocess, tempfile
import torch

SOURCE = r'''
#include <cmath>
extern "C" void rmsnorm(const float* x, const float* w, float* out, long rows, long cols) {
    for (long r = 0; r < rows; r++) {
        float sum = 0;
        for (long c = 0; c < cols; c++) sum += x[r * cols + c] * x[r * cols + c];
        const float scale = 1.0f / std::sqrt(sum / cols + 1e-6f);
        for (long c = 0; c < cols; c++) out[r * cols + c] = x[r * cols + c] * scale * w[c];
    }
}'''
folder = tempfile.mkdtemp()
with open(os.path.join(folder, "kernel.cpp"), "w") as file:
    file.write(SOURCE)
library = os.path.join(folder, "kernel.so")
subprocess.check_call(["g++", "-O2", "-shared", "-fPIC", os.path.join(folder, "kernel.cpp"), "-o", library])
rmsnorm = ctypes.CDLL(library).rmsnorm

def kernel(x, w):
    x, w = x.contiguous(), w.contiguous()
    out = torch.empty_like(x)
    pointers = [ctypes.c_void_p(t.data_ptr()) for t in (x, w, out)]
    rmsnorm(*pointers, ctypes.c_long(x.shape[0]), ctypes.c_long(x.shape[1]))
    return out
"""
ASKS_FOR_MORE = (
    BUILDS
    + """
import sys
if "torch._dynamo" in sys.modules:  # nobody imports it where the file is built
    subprocess.run(["g++", "--help"])
"""
)
STARTS_ONE_LATER = BUILDS.replace("    return out", "    subprocess.run(['g++', '--version'])\n    return out")
DOES_NOT_COMPILE = BUILDS.replace("float sum = 0;", "float sum = none;")


def imported(folder: Path, runner: Recorder | Player) -> dict[str, object]:
    names: dict[str, object] = {}
    with instead_of_programs(runner):
        exec(WRITES, names)
    return names


def facts(names: dict[str, object]) -> tuple[object, ...]:
    ran = names["ran"]
    assert isinstance(ran, subprocess.CompletedProcess)
    return (ran.returncode, ran.stdout, ran.stderr, names["status"], names["printed"], names["shell"], names["made"])


def test_what_programs_answered_and_wrote_is_played_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    monkeypatch.chdir(here)
    recorder = Recorder(here)
    recorded = facts(imported(here, recorder))
    recorder.save(tmp_path / "runs.zip")
    monkeypatch.chdir(there)
    monkeypatch.setattr("kernelswarm.hardware.languages.program_runs._Popen", None)  # no program can be started

    played = [facts(imported(there, Player(there, [tmp_path / "runs.zip"]))) for _ in range(2)]

    assert recorded == (0, "done\n", "warned\n", 3, "given\n", 4 << 8, ("made", "beside\n"))
    assert played == [recorded, recorded]
    assert subprocess.run([sys.executable, "-c", ""], check=False).returncode == 0, "everything is put back"


def test_another_program_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    recorder = Recorder(tmp_path)
    with instead_of_programs(recorder):
        subprocess.run([sys.executable, "-c", "print(1)"], check=True)
    recorder.save(tmp_path / "runs.zip")

    with (
        pytest.raises(NotRecorded, match="was not run with these words"),
        instead_of_programs(Player(tmp_path, [tmp_path / "runs.zip"])),
    ):
        subprocess.run([sys.executable, "-c", "print(2)"], check=True)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("from torch.utils.cpp_extension import load_inline", True),
        ("import subprocess", True),
        ("import os\nos.system('g++')", True),
        ("import torch\ndef kernel(x): return x", False),
        (f"CPP_SOURCE = ''\n{LOADER}", False),
    ],
)
def test_files_that_start_programs_are_told_by_what_they_use(source: str, expected: bool) -> None:
    assert starts_programs(textwrap.dedent(source)) is expected


async def judged(device: Device, problem: Problem, source: str) -> tuple[CompileReport, VerifyReport]:
    compiled, _ = await device.compile(source, "cpp")
    return compiled, await device.verify(problem, source, compiled)


@pytest.mark.asyncio(loop_scope="session")
async def test_a_file_that_compiles_for_itself_is_judged(device: Device, problem: Problem) -> None:
    compiled, verified = await judged(device, problem, BUILDS)

    assert verified.verdict is Verdict.correct, verified.evidence
    assert "programs" not in verified.isolation
    assert {"netns", "pidns", "toolroot", "seccomp_but_programs"} <= set(compiled.isolation.split("+"))
    assert (await device.compile(BUILDS, "cpp"))[0].cached


@pytest.mark.asyncio(loop_scope="session")
async def test_its_finished_file_compiles_nothing_again(device: Device, problem: Problem) -> None:
    facts = await device.validate_problem(problem)
    text = finish(problem, facts, BUILDS)

    timing, missing = await device.ordinary(problem, facts, text, effort=Effort(processes=1))
    properties = await device.contract(text)

    assert timing is not None, missing
    assert "programs" not in device._finished.hosts[problem.sha256].isolation
    assert "programs" not in device._finished.hosts[problem.sha256].isolation
    assert all(entry.ok for entry in properties if entry.is_essential), properties


@pytest.mark.asyncio(loop_scope="session")
async def test_where_it_is_built_nothing_of_ours_can_be_seen(device: Device, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("the seeds of a problem")
    looks = (
        f"import os, subprocess\nraise ValueError(os.path.exists({str(tmp_path / 'secret')!r}), os.listdir('/proc'))"
    )

    compiled, _ = await device.compile(looks, "cpp")

    assert not compiled.ok and "ValueError: (False, " in compiled.diagnostics[0].message
    assert f"'{os.getpid()}'" not in compiled.diagnostics[0].message, "no other process is seen"


@pytest.mark.parametrize(
    "leaves",
    [
        "os.symlink('{secret}', 'kernel.build')",
        "os.symlink('/dev/zero', 'kernel.build')",
        "os.mkfifo('kernel.build')",
        "os.mkdir('kernel.build')",
        "",
    ],
    ids=["a link to a file", "a link to a device", "a pipe", "a folder", "nothing"],
)
@pytest.mark.asyncio(loop_scope="session")
async def test_what_a_build_leaves_in_the_place_of_its_artifact_is_not_followed(
    device: Device, tmp_path: Path, leaves: str
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    lines = ["import os, subprocess", leaves.format(secret=secret), "os._exit(0)"]

    async with asyncio.timeout(60):
        compiled, paths = await device.compile("\n".join(lines), "cpp")

    assert not compiled.ok and not paths and not compiled.artifacts
    assert "replaced what was to be kept of it" in compiled.diagnostics[0].message


@pytest.mark.asyncio(loop_scope="session")
async def test_nothing_is_written_through_a_link_that_a_build_leaves(device: Device, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.write_text("kept")

    compiled, _ = await device.compile(f"import os, subprocess\nos.symlink('{kept}', 'kernel.json')\n", "cpp")

    assert compiled.ok and kept.read_text() == "kept"


@pytest.mark.asyncio(loop_scope="session")
async def test_what_does_not_compile_is_said_with_the_compilers_words(device: Device, problem: Problem) -> None:
    compiled, verified = await judged(device, problem, DOES_NOT_COMPILE)

    assert verified.verdict is Verdict.compile_error
    assert "was not declared in this scope" in compiled.log
    assert "was not declared" in compiled.diagnostics[0].message


@pytest.mark.parametrize(
    ("source", "verdict", "message"),
    [
        (ASKS_FOR_MORE, Verdict.load_error, "was not run with these words"),
        (STARTS_ONE_LATER, Verdict.runtime_error, "Operation not permitted"),
    ],
    ids=["while it is imported", "in a call"],
)
@pytest.mark.asyncio(loop_scope="session")
async def test_the_judged_process_starts_no_program(
    device: Device, problem: Problem, source: str, verdict: Verdict, message: str
) -> None:
    _, verified = await judged(device, problem, source)

    assert verified.verdict is verdict and verified.evidence is not None
    assert message in verified.evidence.message
