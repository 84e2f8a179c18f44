"""The C++ language: what it takes, what it refuses, what it keeps."""

import asyncio
import ctypes
import os
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kernelswarm.hardware.languages import find_language
from kernelswarm.hardware.languages.cpp import LOADER, artifact_key, compile
from kernelswarm.hardware.processes.limited_command import Limits, run_limited
from kernelswarm.schemas import HardwareFacts, InputError, Pool, PoolError, sha256

POOL = Pool(name="cpu", platform="cpu", languages=("cpp",), candidate_seconds=30.0)
FACTS = HardwareFacts(
    device="test",
    cores=2,
    isa=(),
    vector_bytes=16,
    l2_bytes=0,
    l3_bytes=0,
    memory_bytes=8 << 30,
    copy_gbps=1.0,
    peak_gflops=1.0,
)
ADD = 'extern "C" int add(int a, int b) { return a + b; }\n'


def candidate(text: str, flags: list[str] | None = None) -> str:
    native = f"CPP_SOURCE = {text!r}\nCPP_FLAGS = {flags or []!r}\n"
    return f"{LOADER}\n{native}\ndef kernel(a, b):\n    return _load().add(a, b)\n"


async def build(source: str, cache: Path, pool: Pool = POOL):
    return await compile(source, pool=pool, hardware=FACTS, cache=cache)


def leftovers(cache: Path) -> list[str]:
    return sorted(path.name for path in cache.iterdir() if path.suffix not in (".so", ".json"))


async def test_an_artifact_is_named_by_its_key_and_found_by_its_hash(tmp_path):
    report, artifacts = await build(candidate(ADD, ["-funroll-loops"]), tmp_path)
    assert report.ok and not report.cached and report.seconds > 0 and report.flags[-1] == "-funroll-loops"
    (artifact,) = report.artifacts
    path = artifacts[artifact.sha256]
    assert path == tmp_path / f"{artifact_key(ADD, ('-funroll-loops',))}.so"
    assert artifact.sha256 == sha256(path.read_bytes()) and artifact.size == path.stat().st_size
    assert ctypes.CDLL(str(path)).add(2, 3) == 5
    assert leftovers(tmp_path) == []


async def test_a_second_build_is_taken_from_the_cache_and_a_damaged_one_is_not(tmp_path):
    first, artifacts = await build(candidate(ADD), tmp_path)
    second, again = await build(candidate(ADD), tmp_path)
    assert second.cached and again == artifacts and second.artifacts == first.artifacts
    (path,) = artifacts.values()
    path.write_bytes(b"half")
    third, _ = await build(candidate(ADD), tmp_path)
    assert third.ok and not third.cached and third.artifacts == first.artifacts


async def test_an_artifact_of_another_processor_is_built_anew(tmp_path):
    await build(candidate(ADD), tmp_path)
    other_hardware = HardwareFacts(
        **{name: getattr(FACTS, name) for name in FACTS.__struct_fields__} | {"device": "other"}
    )
    report, _ = await compile(candidate(ADD), pool=POOL, hardware=other_hardware, cache=tmp_path)
    assert report.ok and not report.cached


async def test_many_at_once_build_the_same_key_safely(tmp_path):
    results = await asyncio.gather(*(build(candidate(ADD), tmp_path) for _ in range(4)))
    assert all(report.ok for report, _ in results)
    (path,) = {path for _, artifacts in results for path in artifacts.values()}
    assert ctypes.CDLL(str(path)).add(1, 1) == 2
    assert leftovers(tmp_path) == []


async def test_plain_pytorch_needs_no_compiler(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "")
    report, artifacts = await build("def kernel(x):\n    return x\n", tmp_path)
    assert report.ok and not artifacts and report.compiler == ""


@pytest.mark.parametrize(
    ("source", "message", "line"),
    [
        ("def kernel(:\n", "not valid Python", 1),
        ("CPP_SOURCE = 'a' + str(1)\n", "must be a literal", 1),
        ("CPP_SOURCE = 'a'\nCPP_SOURCE = 'b'\n", "assigned 2 times", 2),
        ("if True:\n    CPP_SOURCE = 'a'\n", "at module level", 2),
        ("CPP_SOURCE = 3\n", "one string literal", 0),
        ("CPP_SOURCE = 'a'\nCPP_FLAGS = '-O3'\n", "list of string literals", 0),
        ("a\0b", "not valid Python", 0),
    ],
)
async def test_what_cannot_be_read_is_a_diagnostic(tmp_path, source, message, line):
    report, artifacts = await build(source, tmp_path)
    assert not report.ok and not artifacts
    (diagnostic,) = report.diagnostics
    assert message in diagnostic.message and diagnostic.line == line


@pytest.mark.parametrize(
    "flag",
    [
        "-fplugin=/tmp/evil.so", "-wrapper", "@/etc/passwd", "-o", "-o/tmp/x", "-I/etc", "-B/tmp", "-specs=/tmp/s",
        "-Wl,-rpath,/tmp", "-Wa,--x", "-Wp,-MD,/tmp/x", "-include/etc/passwd", "-MD", "-MF/tmp/x", "-fdump-tree-all",
        "-fprofile-generate", "-fmodule-mapper=|evil", "-x", "other.cpp", "-L/tmp", "-levil", "-mllvm", "-save-temps",
        "-ffast-math", "-Ofast", "-O3\n-fplugin=x", "-D X", "-fsanitize=address", "-fuse-ld=/tmp/ld", "",
    ],
)  # fmt: skip
async def test_flags_that_do_more_than_optimise_are_refused(tmp_path, flag):
    report, _ = await build(candidate(ADD, [flag]), tmp_path)
    assert not report.ok and "is refused" in report.diagnostics[0].message and not list(tmp_path.iterdir())


async def test_flags_beyond_a_command_line_are_refused(tmp_path):
    report, _ = await build(candidate(ADD, ["-DX=" + "1" * 300_000]), tmp_path)
    assert not report.ok and "are refused" in report.diagnostics[0].message


async def test_flags_that_optimise_pass(tmp_path):
    flags = ["-O2", "-fno-signed-zeros", "-fassociative-math", "-mprefer-vector-width=512", "-DTILE=64", "-std=c++20"]
    report, _ = await build(candidate(ADD, flags), tmp_path)
    assert report.ok, report.log


async def test_an_error_has_its_place_in_the_native_source(tmp_path):
    report, artifacts = await build(candidate("int a;\nint f() {\n  return nope;\n}\n"), tmp_path)
    assert not report.ok and not artifacts and leftovers(tmp_path) == []
    error = next(d for d in report.diagnostics if d.severity == "error")
    assert (error.line, error.column) == (3, 10) and "nope" in error.message and "nope" in report.log


async def test_an_error_inside_a_header_points_to_the_line_that_led_there(tmp_path):
    text = (
        "#include <vector>\nstruct A { A(const A&) = delete; };\nvoid f(std::vector<A>& v, A& a) {\n v.push_back(a); }"
    )
    report, _ = await build(candidate(text), tmp_path)
    assert any(d.severity == "error" and d.line == 4 for d in report.diagnostics), report.log


@pytest.mark.parametrize("name", ["/dev/zero", "/proc/self/fd/0", "/etc/shadow", "/nowhere"])
async def test_an_include_of_a_device_ends(tmp_path, name):
    pool = Pool(name="cpu", platform="cpu", languages=("cpp",), candidate_seconds=1.0, candidate_memory_bytes=1 << 30)
    report, _ = await build(candidate(f'#include "{name}"\nint x = y;\n'), tmp_path, pool)
    assert not report.ok and report.diagnostics and leftovers(tmp_path) == []


async def test_the_toolchain_sees_no_secret_of_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret")
    finished = await run_limited(["env"], cwd=tmp_path, limits=Limits(60.0, 1 << 30, 1 << 20))
    assert finished.returncode == 0 and "LC_ALL=C" in finished.output and "sk-secret" not in finished.output


def running_in(folder: Path) -> list[str]:
    pids = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if str(process.joinpath("cwd").readlink()).startswith(str(folder)):
                pids.append(process.name)
        except OSError:
            continue
    return pids


async def test_cancelling_kills_the_whole_group(tmp_path, monkeypatch):
    # Where a compiler looks for headers is what it sees of the files beside its own.
    monkeypatch.setenv("CPATH", str(tmp_path))
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    cache = tmp_path / "cache"
    task = asyncio.create_task(build(candidate(f'#include "{fifo}"\n'), cache))
    # Opening the other end waits until the compiler proper has opened its own.
    end = await asyncio.to_thread(os.open, fifo, os.O_WRONLY)
    assert running_in(cache)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    os.close(end)
    assert not running_in(cache) and leftovers(cache) == []


KILLED_WHILE_COMPILING = """
import asyncio, sys
from pathlib import Path
from kernelswarm.hardware.processes.limited_command import Limits, run_limited
command = ["sh", "-c", "cat < fifo & cat < fifo"]
asyncio.run(run_limited(command, cwd=Path(sys.argv[1]), limits=Limits(600.0, 1 << 30, 1 << 20)))
"""


def test_the_compiler_dies_with_a_supervisor_that_is_killed(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    supervisor = subprocess.Popen([sys.executable, "-c", KILLED_WHILE_COMPILING, str(tmp_path)])
    end = os.open(tmp_path / "fifo", os.O_WRONLY)
    readers_gone = select.poll()
    readers_gone.register(end, select.POLLERR)
    assert not readers_gone.poll(0)
    supervisor.kill()
    supervisor.wait()
    assert readers_gone.poll(60_000)
    os.close(end)


async def test_a_late_compiler_is_a_diagnostic(tmp_path, monkeypatch):
    monkeypatch.setenv("CPATH", str(tmp_path))
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    pool = Pool(name="cpu", platform="cpu", languages=("cpp",), candidate_seconds=0.3)
    report, _ = await build(candidate(f'#include "{fifo}"\n'), tmp_path / "cache", pool)
    assert not report.ok and "stopped after 0.3 s" in report.diagnostics[0].message
    assert not running_in(tmp_path / "cache")


async def test_an_artifact_cannot_fill_the_disk(tmp_path):
    report, _ = await build(candidate("extern char big[300 << 20]; char big[300 << 20] = {1};\n"), tmp_path)
    assert not report.ok and report.diagnostics[0].severity == "error" and leftovers(tmp_path) == []


async def test_without_a_compiler_the_error_names_the_way_out(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(PoolError, match=r"apt-get install g\+\+"):
        await build(candidate(ADD), tmp_path)
    named = Pool(name="cpu", platform="cpu", languages=("cpp",), compiler="icpx")
    with pytest.raises(PoolError, match="icpx"):
        await build(candidate(ADD), tmp_path, named)


async def test_a_cache_that_cannot_be_written_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot compile into"):
        await build(candidate(ADD), tmp_path / "file")


def test_the_registry_names_what_there_is():
    assert find_language("cpp").NAME == "cpp"
    with pytest.raises(PoolError, match=r"'rust'; there is cpp, cuda, triton"):
        find_language("rust")


def run_bare(path: Path, **environment: str) -> str:
    call = f"import runpy; print(runpy.run_path({str(path)!r})['kernel'](20, 22))"
    result = subprocess.run(
        [sys.executable, "-I", "-S", "-c", call],
        env={"PATH": os.environ["PATH"], **environment},
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )
    return result.stdout.strip() or result.stderr


def test_the_file_runs_alone_and_keeps_its_library_in_a_private_folder(tmp_path):
    path = tmp_path / "best.py"
    path.write_text(candidate(ADD, ["-O2"]))
    assert run_bare(path, XDG_CACHE_HOME=str(tmp_path / "cache")) == "42"
    (library,) = (tmp_path / "cache").rglob("*.so")
    assert library.stem == artifact_key(ADD, ("-O2",)) and library.parent.stat().st_mode & 0o077 == 0
    before = library.stat().st_mtime_ns
    assert run_bare(path, XDG_CACHE_HOME=str(tmp_path / "cache")) == "42"
    assert library.stat().st_mtime_ns == before


async def test_the_file_takes_the_artifact_that_was_compiled_here(tmp_path):
    path = tmp_path / "best.py"
    path.write_text(candidate(ADD))
    await build(path.read_text(), tmp_path / "artifacts")
    home = str(tmp_path / "cache")
    # No compiler in reach: only the artifact can serve.
    assert run_bare(path, XDG_CACHE_HOME=home, KERNELSWARM_ARTIFACTS=str(tmp_path / "artifacts"), PATH="") == "42"
    assert not (tmp_path / "cache").exists()
    assert "needs a C++ compiler" in run_bare(path, XDG_CACHE_HOME=home, PATH="")


def test_a_cache_folder_that_others_can_write_is_not_trusted(tmp_path):
    path = tmp_path / "best.py"
    path.write_text(candidate(ADD))
    home, scratch = tmp_path / "cache", tmp_path / "tmp"
    scratch.mkdir()
    assert run_bare(path, XDG_CACHE_HOME=str(home)) == "42"
    (library,) = home.rglob("*.so")
    library.write_bytes(b"not ours")
    library.parent.chmod(0o777)
    assert run_bare(path, XDG_CACHE_HOME=str(home), TMPDIR=str(scratch)) == "42"


def test_a_file_that_does_not_compile_says_why(tmp_path):
    path = tmp_path / "best.py"
    path.write_text(candidate("int f() { return nope; }"))
    assert "nope" in run_bare(path, XDG_CACHE_HOME=str(tmp_path))


async def test_build_folders_of_killed_processes_are_swept(tmp_path):
    old = tmp_path / ".build-old"
    old.mkdir()
    os.utime(old, (time.time() - 7200,) * 2)
    await build(candidate(ADD), tmp_path)
    assert leftovers(tmp_path) == []
