"""What a finished session leaves in a folder: ``best.py`` with its best correct candidate, and ``result.json``."""

import tempfile
from pathlib import Path

import msgspec

from ..schemas import InputError, encode
from ..sessions.finished_file import finished_file
from ..sessions.results import SearchResult
from ..sessions.search import Search

CHOSEN_FOLDER = "out.txt"
"""Beside what a session leaves in the home: the folder that its files go to instead."""


def make_folder(folder: Path, option: str = "--out") -> None:
    """Make sure that ``folder``, which ``option`` names, can take a result, before hours are spent on one.

    Raises:
        InputError: it is a file, or it cannot be made or written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise InputError(f"cannot write in {folder}: {error.strerror}; choose another folder with {option}") from error


def keep_folder(home: Path, session: str, folder: Path) -> None:
    """Note in ``home`` where the user wants the session's files, for whoever resumes it."""
    note = home / "sessions" / session / CHOSEN_FOLDER
    try:
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_text(str(folder.absolute()), encoding="utf-8")
    except OSError as error:
        raise InputError(
            f"cannot write in {note.parent}: {error.strerror}; set KERNELSWARM_HOME to a folder that can be written"
        ) from error


def kept_folder(home: Path, session: str) -> Path | None:
    """Where the user wanted the session's files; None where nobody said."""
    try:
        return Path((home / "sessions" / session / CHOSEN_FOLDER).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def write_result(search: Search, folder: Path) -> SearchResult:
    """Write what ``search`` came to into ``folder``: the result with the kernel's path filled in. Too slow for a loop.

    Raises:
        InputError: the folder cannot be written; the kernel is still in the log.
    """
    result = search.result()
    text = finished_file(search.graph, result.best) if result.best else ""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if text:
            path = folder / "best.py"
            path.write_text(text, encoding="utf-8")
            result = msgspec.structs.replace(result, path=str(path))
        (folder / "result.json").write_bytes(msgspec.json.format(encode(result), indent=2) + b"\n")
    except OSError as error:
        raise InputError(
            f"cannot write in {folder}: {error.strerror}; nothing is lost: kernelswarm show {result.session} --file"
        ) from error
    return result
