"""Programs that a candidate's file runs while it is imported: run once in the compiler's jail, played back elsewhere.

Kernels as people publish them call ``load_inline``, ``g++`` or ``nvcc`` themselves. The judged process may start no
program. So the file is imported once where it may (this module as a program of its own: ``python program_runs.py FILE
ARCHIVE``), every program it runs is recorded with what it answered and which files it wrote, and the judged process
gets these answers and files instead of the program. What a file asks for there and did not ask for here is refused.

Only the standard library is imported: the jail sees no file of ours but this one.
"""

import contextlib
import io
import itertools
import json
import os
import random
import re
import runpy
import stat
import subprocess
import sys
import tempfile
import uuid
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

SUFFIX = ".build"
"""Of the artifact that holds what was recorded."""
RUNS = "runs.json"
FOLDER = "{folder}"
"""Stands for the working folder."""
BUILT = "built"
"""Its subfolder for home, temporary files and caches."""
_TEMPORARY = re.compile(r"kernelswarm-temporary-\d+")
_STARTS_PROGRAMS = re.compile(r"\bcpp_extension\b|\bload_inline\b|\bsubprocess\b|\bos\s*\.\s*(system|popen)\b")
_OWN_LOADER = "KERNELSWARM_ARTIFACTS"
"""In every file whose native code the toolchain compiles; its loader finds the artifact and starts nothing."""
_DIFFERS = (
    "it was not run with these words when the file was built; run it while the file is imported, and name no file "
    "after the time or the process"
)
_Popen = subprocess.Popen


def starts_programs(source: str) -> bool:
    """Whether a file may compile something itself."""
    return _OWN_LOADER not in source and _STARTS_PROGRAMS.search(source) is not None


def environment(root: Path) -> dict[str, str]:
    """Variables by which libraries find folders that can be written."""
    return {
        "HOME": str(root),
        "TMPDIR": str(root / "tmp"),
        "XDG_CACHE_HOME": str(root / "cache"),
        "TORCH_EXTENSIONS_DIR": str(root / "extensions"),
    }


class NotRecorded(PermissionError):
    """A program that was not run when the file was built."""


class Recorder:
    """Runs programs, and keeps what they did."""

    def __init__(self, folder: Path) -> None:
        """In the working folder ``folder``: what lies there already is not recorded."""
        self.folder = folder
        self._given = self._state().keys()
        self.runs: list[dict[str, Any]] = []
        self.files: dict[str, bytes] = {}

    def run(self, argv: Any, options: dict[str, Any], sent: bytes | None) -> tuple[int, bytes, bytes]:
        """Run a program to its end."""
        before = self._state()
        done = _Popen(
            argv,
            stdin=subprocess.DEVNULL if sent is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=options.get("stderr") if options.get("stderr") == subprocess.STDOUT else subprocess.PIPE,
            **{key: options[key] for key in ("cwd", "env", "shell", "executable") if options.get(key) is not None},
        )
        out, err = done.communicate(sent)
        written, links = {}, {}
        for name, state in self._state().items():
            path = self.folder / name
            if before.get(name) == state or name in self._given:
                continue
            if path.is_symlink():
                links[name] = _anywhere(path.readlink(), self.folder)
            else:
                written[name] = f"files/{len(self.files)}"
                self.files[written[name]] = path.read_bytes()
        self.runs.append(
            {
                "command": _command(argv, options, self.folder),
                "status": done.returncode,
                "out": (out or b"").decode("latin-1"),
                "err": (err or b"").decode("latin-1"),
                "written": written,
                "links": links,
            }
        )
        return done.returncode, out or b"", err or b""

    def _state(self) -> dict[str, tuple[int, int, int]]:
        """Files and links in the working folder, and what changes when one is written."""
        states = {}
        for folder, folders, files in os.walk(self.folder):
            for name in (*folders, *files):
                path = Path(folder, name)
                with contextlib.suppress(OSError):
                    status = path.lstat()
                    if stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode):
                        key = str(path.relative_to(self.folder))
                        states[key] = (status.st_mtime_ns, status.st_size, status.st_ino)
        return states

    def save(self, path: Path) -> None:
        """Write everything into one archive."""
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            archive.writestr(RUNS, json.dumps(self.runs))
            for name, data in self.files.items():
                archive.writestr(name, data)


class Player:
    """Answers as the programs did, and writes what they wrote."""

    def __init__(self, folder: Path, archives: Sequence[Path]) -> None:
        self.folder = folder
        self._recorded: dict[str, list[tuple[Path, dict[str, Any]]]] = {}
        for path in archives:
            with zipfile.ZipFile(path) as archive:
                for run in json.loads(archive.read(RUNS)):
                    self._recorded.setdefault(_unnamed(run["command"]), []).append((path, run))

    def run(self, argv: Any, options: dict[str, Any], sent: bytes | None) -> tuple[int, bytes, bytes]:
        """Play back the next run of this command, the last one once there is no other.

        Raises:
            NotRecorded: it was not run when the file was built.
        """
        command = _command(argv, options, self.folder)
        runs = self._recorded.get(_unnamed(command), [])
        if not runs:
            raise NotRecorded(1, f"{command[0]}: {_DIFFERS}")
        path, run = runs.pop(0) if len(runs) > 1 else runs[0]
        now = dict(zip(_names(run["command"]), _names(command), strict=True))
        with zipfile.ZipFile(path) as archive:
            for name, member in run["written"].items():
                self._free(name, now).write_bytes(archive.read(member))
        for name, target in run["links"].items():
            self._free(name, now).symlink_to(_renamed(target, now).replace(FOLDER, str(self.folder)))
        return run["status"], run["out"].encode("latin-1"), run["err"].encode("latin-1")

    def _free(self, name: str, now: Mapping[str, str]) -> Path:
        """Where a file is to lie; what lay there is gone."""
        target = self.folder / _renamed(name, now)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)
        return target


def _command(argv: Any, options: dict[str, Any], folder: Path) -> list[str]:
    words = [argv] if isinstance(argv, str | bytes | os.PathLike) else list(argv)
    cwd = os.fspath(options.get("cwd") or Path.cwd())
    return [_anywhere(word, folder) for word in (*words, cwd)]


def _anywhere(path: str | bytes | os.PathLike[str], folder: Path) -> str:
    return os.fsdecode(path).replace(str(folder), FOLDER)


def _renamed(text: str, now: Mapping[str, str]) -> str:
    return _TEMPORARY.sub(lambda match: now.get(match[0], match[0]), text)


def _names(command: Sequence[str]) -> list[str]:
    return [name for word in command for name in _TEMPORARY.findall(word)]


def _unnamed(command: Sequence[str]) -> str:
    return json.dumps([_TEMPORARY.sub("*", word) for word in command])


class _Finished:
    """What stands for ``subprocess.Popen``: the program has run when this is made, or when it has its input."""

    runner: "Recorder | Player"

    def __init__(self, args: Any, **options: Any) -> None:
        self.args, self._options = args, options
        self.pid = 0
        self.returncode: int | None = None
        self._is_text = any(options.get(key) for key in ("text", "universal_newlines", "encoding", "errors"))
        self.stdin: Any = None
        self.stdout: Any = None
        self.stderr: Any = None
        self._out = self._err = b""
        if options.get("stdin") == subprocess.PIPE:
            self.stdin = io.StringIO() if self._is_text else io.BytesIO()
        else:
            self._run(None)

    def _run(self, sent: bytes | None) -> None:
        if self.returncode is not None:
            return
        self.returncode, self._out, self._err = self.runner.run(self.args, self._options, sent)
        for number, (name, data) in enumerate((("stdout", self._out), ("stderr", self._err)), 1):
            target = self._options.get(name)
            if target is None:
                os.write(number, data)
            elif target == subprocess.PIPE:
                setattr(self, name, io.StringIO(self._text(data)) if self._is_text else io.BytesIO(data))
            elif isinstance(target, int) and target >= 0:
                os.write(target, data)
            elif not isinstance(target, int):
                getattr(target, "buffer", target).write(data)

    def _text(self, data: bytes) -> str:
        text = data.decode(self._options.get("encoding") or "utf-8", self._options.get("errors") or "replace")
        return text.replace("\r\n", "\n")

    def communicate(self, input: Any = None, timeout: float | None = None) -> tuple[Any, Any]:
        """As ``Popen.communicate``."""
        self._run(input.encode() if isinstance(input, str) else input)
        texts = [getattr(self, name) for name in ("stdout", "stderr")]
        return tuple(None if text is None else text.read() for text in texts)  # type: ignore[return-value]

    def wait(self, timeout: float | None = None) -> int | None:
        """As ``Popen.wait``."""
        self._run(None)
        return self.returncode

    def poll(self) -> int | None:
        """As ``Popen.poll``."""
        return self.returncode

    def kill(self) -> None:
        """It has ended already."""

    terminate = kill

    def send_signal(self, sig: int) -> None:
        """It has ended already."""

    def __class_getitem__(cls, item: object) -> type:
        return cls

    def __enter__(self) -> "_Finished":
        return self

    def __exit__(self, *_: object) -> None:
        self._run(None)


def _system(command: str) -> int:
    finished = subprocess.Popen(command, shell=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)  # noqa: S602
    finished.communicate()
    return (finished.returncode or 0) << 8


@contextlib.contextmanager
def instead_of_programs(runner: Recorder | Player) -> Iterator[None]:
    """While this is open, ``runner`` runs what Python code starts with ``subprocess`` and ``os.system``."""
    own = type("Popen", (_Finished,), {"runner": runner})
    variables = environment(runner.folder / BUILT)
    for name in ("TMPDIR", "XDG_CACHE_HOME", "TORCH_EXTENSIONS_DIR"):
        Path(variables[name]).mkdir(parents=True, exist_ok=True)
    before = {name: os.environ.get(name) for name in variables}
    kept = subprocess.Popen, os.system, uuid.uuid4, tempfile.tempdir, tempfile._name_sequence  # type: ignore[attr-defined]
    os.environ.update(variables)
    subprocess.Popen, os.system = own, _system  # type: ignore[misc,assignment]
    tempfile.tempdir = variables["TMPDIR"]
    # The same names in every process, so that the commands are the same.
    bits = random.Random(0)
    uuid.uuid4 = lambda: uuid.UUID(int=bits.getrandbits(128), version=4)
    names = (f"kernelswarm-temporary-{number}" for number in itertools.count())
    tempfile._name_sequence = names  # type: ignore[attr-defined]
    try:
        yield
    finally:
        subprocess.Popen, os.system, uuid.uuid4, tempfile.tempdir, tempfile._name_sequence = kept  # type: ignore
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def played_back(folder: Path, archives: Sequence[Path]) -> contextlib.AbstractContextManager[None]:
    """While this is open in the working folder ``folder``, programs are played back, if there are any."""
    return instead_of_programs(Player(folder, archives)) if archives else contextlib.nullcontext()


def main(file: str, archive: str) -> None:
    """Import ``file`` in the working folder, and write what it ran into ``archive``."""
    recorder = Recorder(Path.cwd())
    with instead_of_programs(recorder):
        runpy.run_path(file, run_name="candidate")
    recorder.save(Path(archive))


if __name__ == "__main__":
    main(*sys.argv[1:])
