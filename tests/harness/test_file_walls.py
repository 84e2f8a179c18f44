"""Where no mount namespace is permitted, a candidate reads what it computes with and writes its scratch folder."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kernelswarm.hardware.processes import landlock
from kernelswarm.schemas import Problem

HERE = Path(__file__).parent

TRIED = """
import contextlib, json, os, sys, threading
from pathlib import Path
from kernelswarm.hardware.processes import landlock
scratch, outside, secret = sys.argv[1:]
opened = open(secret)
try:
    landlock.wall_in(scratch)
except OSError as error:
    print(json.dumps({"refused": str(error)}))
    sys.exit()
def works(step):
    try:
        step()
        return True
    except OSError:
        return False
def named():
    ended = threading.Event()
    other = threading.Thread(target=ended.wait)
    other.start()
    try:
        open(f"/proc/self/task/{other.native_id}/comm", "w").write("driver")
    finally:
        ended.set()
print(json.dumps({
    "read a secret": works(lambda: open(secret).read()),
    "read it by a link": works(lambda: (os.symlink(secret, scratch + "/link"), open(scratch + "/link").read())),
    "list its folder": works(lambda: os.listdir(outside)),
    "list the root": works(lambda: os.listdir("/")),
    "write beside it": works(lambda: open(outside + "/mine", "w")),
    "remove it": works(lambda: os.unlink(secret)),
    "move it": works(lambda: os.rename(secret, scratch + "/mine")),
    "empty it": works(lambda: os.truncate(secret, 0)),
    "make a folder in /tmp": works(lambda: os.mkdir("/tmp/kernelswarm-walls")),
    "write /dev/shm": works(lambda: open("/dev/shm/kernelswarm-walls", "w")),
    "write scratch": works(lambda: Path(scratch, "a", "b").mkdir(parents=True)),
    "read scratch": works(lambda: os.listdir(scratch)),
    "write nothing": works(lambda: open("/dev/null", "w").write("x")),
    "read random": works(lambda: open("/dev/urandom", "rb").read(8)),
    "read /proc": works(lambda: open("/proc/self/maps").read()),
    "read /sys": works(lambda: os.listdir("/sys/devices/system/cpu")),
    "name a thread": works(named),
    "write another's /proc": works(lambda: open(f"/proc/{os.getppid()}/comm", "w").write("mine")),
    "write its own /proc": works(lambda: open("/proc/self/oom_score_adj", "w").write("1000")),
    "write /proc/sys": works(lambda: open("/proc/sys/vm/overcommit_ratio", "r+")),
    "read Python": works(lambda: open(os.__file__).read()),
    "read the package": works(lambda: open(landlock.__file__).read()),
    "write Python": works(lambda: open(os.__file__, "a")),
    "start a program": works(lambda: os.posix_spawn("/bin/true", ["true"], {})),
    "go on reading": works(lambda: opened.read()),
}))
"""
ALLOWED = {
    *("write scratch", "read scratch", "write nothing", "read random", "read /proc", "read /sys", "read Python"),
    *("read the package", "start a program", "go on reading", "name a thread"),
}


def test_only_what_computing_needs_can_be_read_and_only_scratch_written(tmp_path: Path) -> None:
    scratch, outside = tmp_path / "scratch", tmp_path / "outside"
    scratch.mkdir()
    outside.mkdir()
    (outside / "secret").write_text("key")

    accesses = _ran([sys.executable, "-c", TRIED, str(scratch), str(outside), str(outside / "secret")])

    if "refused" in accesses:
        pytest.skip(f"this kernel has none: {accesses['refused']}")
    assert {name for name, works in accesses.items() if works} == ALLOWED
    assert (outside / "secret").read_text() == "key"


LOOKS_AROUND = """
import os, torch
def kernel(x, w):
    open("mine", "w").write("fine")
    os.path.getsize(torch.__file__)
    for path in %r:
        try:
            open(path).read()
        except PermissionError:
            continue
        raise RuntimeError(path + " can be read")
    for folder in (os.environ["KERNELSWARM_ARTIFACTS"], os.path.dirname(torch.__file__), "/tmp"):
        try:
            open(os.path.join(folder, "kernelswarm-test-leak"), "w")
        except PermissionError:
            continue
        raise RuntimeError(folder + " can be written")
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w
"""


def test_a_candidate_reads_no_home_folder_where_no_mount_namespace_is_permitted(
    tmp_path: Path, problem: Problem
) -> None:
    secret, home = tmp_path / "user" / "secret", tmp_path / "user" / "kernelswarm"
    home.mkdir(parents=True)
    secret.write_text("key")
    (home / "log.duckdb").write_text("seeds")
    reference, candidate = tmp_path / "problem.py", tmp_path / "candidate.py"
    reference.write_text(problem.source)
    candidate.write_text(LOOKS_AROUND % [str(secret), str(home / "log.duckdb"), str(candidate)])

    programs = (HERE / "no_namespaces.py", HERE / "judged_walled_in.py")
    report = _ran([sys.executable, *map(str, (*programs, home, reference, candidate))])

    layers = report["isolation"].split("+")
    assert not {"mountns", "netns", "pidns"} & set(layers)
    if "landlock" not in layers:
        pytest.skip("this kernel has no Landlock")
    assert report["verdict"] == "correct", report["evidence"]
    assert secret.read_text() == "key"


NOTES = """
import os, sys
from kernelswarm.hardware.processes import seccomp
seccomp.confine(programs=sys.argv[2] == "programs")
notes = {
    "times": lambda: os.utime(sys.argv[1], ns=(1, 1)),
    "mode": lambda: os.chmod(sys.argv[1], 0o640),
    "attribute": lambda: os.setxattr(sys.argv[1], "user.note", b"1"),
}
for name, leave in notes.items():
    try:
        leave()
    except PermissionError:
        print(name)
    except OSError:
        pass
"""


@pytest.mark.parametrize(("programs", "refused"), [("", ["times", "mode", "attribute"]), ("programs", [])])
def test_no_notes_can_be_left_at_files(tmp_path: Path, programs: str, refused: list[str]) -> None:
    (tmp_path / "file").touch()
    command = [sys.executable, "-c", NOTES, str(tmp_path / "file"), programs]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == refused


def test_no_variable_makes_a_home_folder_readable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{tmp_path}:{tmp_path / 'lib'}:{tmp_path.parent}::relative")

    paths = landlock.readable()

    assert str(tmp_path / "lib") in paths
    assert not {str(tmp_path), str(tmp_path.parent), "", "relative", "/"} & set(paths)


def _ran(command: list[str]) -> dict[str, str]:
    folders = {"PYTHONPATH": str(HERE.parent / "support")}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=HERE, env={**os.environ, **folders})
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout.splitlines()[-1]))
