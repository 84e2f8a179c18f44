"""Keeps compiled artifacts by key: whole or not at all, and only for the machine that they were built for."""

import asyncio
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec

from ...schemas import Artifact, CompileReport, InputError, Schema, decode, encode, sha256

SHARED_OBJECT = "application/x-sharedlib"
SUFFIX = ".so"
ABANDONED_SECONDS = 3600
"""A build folder this old belongs to a process that was killed."""


Build = Callable[[Path], Awaitable[tuple[CompileReport, str]]]
"""Compiles in an empty folder: the report, and the name of the artifact there, which only counts if it went well."""


class Irregular(OSError):
    """What a build left in the place of its artifact is no file."""


class _Entry(Schema, frozen=True, kw_only=True):
    """What is written beside an artifact."""

    report: CompileReport
    machine: list[str]
    """Compiler and processor: ``-march=native`` makes code that another machine may not run."""


class ArtifactCache:
    """A folder of ``<key><suffix>`` files, each with a note of the same stem beside it."""

    BUILDING = ".build-"
    """Prefix of the folders in which artifacts are made before they are renamed into place."""

    def __init__(self, folder: Path, suffix: str = SUFFIX, media_type: str = SHARED_OBJECT) -> None:
        self.folder = folder
        self._suffix = suffix
        self._media_type = media_type

    async def built(self, key: str, machine: list[str], build: Build) -> tuple[CompileReport, dict[str, Path]]:
        """Report and artifact of an earlier build for the same ``machine``, else of ``build``, which is then kept.

        Raises:
            Irregular: what was built is no file.
            InputError: the folder cannot be written, or its disk is full.
        """
        try:
            cached = await asyncio.to_thread(self.find, key, machine)
            if cached is not None:
                return cached
            folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix=self.BUILDING, dir=self.folder))
            try:
                report, name = await build(folder)
                if not report.ok:
                    return report, {}
                return await asyncio.to_thread(self.keep, key, folder / name, report, machine)
            finally:
                shutil.rmtree(folder, ignore_errors=True)
        except Irregular:
            raise
        except OSError as error:
            raise InputError(
                f"cannot compile into {self.folder}: {error.strerror or error}; free space there or set "
                "KERNELSWARM_HOME elsewhere"
            ) from error

    def find(self, key: str, machine: list[str]) -> tuple[CompileReport, dict[str, Path]] | None:
        """Report and artifact of an earlier build for the same ``machine``, if the file is still what it was.

        Raises:
            OSError: the folder cannot be made.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        self._sweep()
        path = self.folder / f"{key}{self._suffix}"
        try:
            note = decode(path.with_suffix(".json").read_bytes(), _Entry)
            data = path.read_bytes()
        except (FileNotFoundError, msgspec.DecodeError):
            return None
        (artifact,) = note.report.artifacts
        if note.machine != machine or artifact.sha256 != sha256(data):
            return None
        return msgspec.structs.replace(note.report, cached=True), {artifact.sha256: path}

    def keep(
        self, key: str, built: Path, report: CompileReport, machine: list[str]
    ) -> tuple[CompileReport, dict[str, Path]]:
        """Keep what the file ``built`` holds; returns the report with its artifact.

        Raises:
            Irregular: ``built`` is no file.
            OSError: it cannot be kept.
        """
        data = _read_regular(built)
        path = self.folder / f"{key}{self._suffix}"
        artifact = Artifact(sha256=sha256(data), size=len(data), media_type=self._media_type, name=path.name)
        report = msgspec.structs.replace(report, artifacts=(artifact,))
        # The artifact first: a note without its artifact would be believed until the hash is compared.
        _put(path, data)
        _put(path.with_suffix(".json"), encode(_Entry(report=report, machine=machine)))
        return report, {artifact.sha256: path}

    def _sweep(self) -> None:
        for folder in self.folder.glob(f"{self.BUILDING}*"):
            try:
                abandoned = time.time() - folder.stat().st_mtime > ABANDONED_SECONDS
            except FileNotFoundError:
                continue
            if abandoned:
                shutil.rmtree(folder, ignore_errors=True)


def install(folder: Path, artifact: Artifact, data: bytes) -> None:
    """Put an artifact that was compiled elsewhere into the cache: whole or not at all.

    Raises:
        InputError: ``data`` is not what ``artifact`` says, its name is no plain file name, or the disk is full.
    """
    if sha256(data) != artifact.sha256:
        raise InputError(f"artifact {artifact.name} arrived damaged: its sha256 is not {artifact.sha256}")
    if not artifact.name or Path(artifact.name).name != artifact.name:
        raise InputError(f"artifact name {artifact.name!r} is not a file name")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _put(folder / artifact.name, data)
    except OSError as error:
        raise InputError(
            f"cannot write into {folder}: {error.strerror}; free space there or set KERNELSWARM_HOME"
        ) from error


def _read_regular(path: Path) -> bytes:
    """What a build left. Its folder belonged to code that nobody vouches for: a link there leads to a file of ours, and
    a pipe to nowhere."""
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return file.read()
    except OSError as error:
        raise Irregular(f"{path.name}: {error.strerror}") from error
    raise Irregular(f"{path.name} is no regular file")


def _put(path: Path, data: bytes) -> None:
    """Write a file whole or not at all, by way of a new one that nobody else can have prepared."""
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".install-", delete=False) as file:
        new = Path(file.name)
        try:
            file.write(data)
            file.flush()
            new.replace(path)
        except OSError:
            new.unlink(missing_ok=True)
            raise
