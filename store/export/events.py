"""The format ``events``: wire envelopes, one a line, as they can be imported again."""

import io
from collections.abc import Iterator
from pathlib import Path

import msgspec
import zstandard

from ...schemas import StoreError, decode
from ..chain import Row, read_message
from .folder import file_sha256
from .manifest import MANIFEST, MANIFEST_VERSION, Manifest

EVENTS_FILE = "events.jsonl.zst"

_LONGEST = 64 * 1024 * 1024


def read_manifest(folder: Path) -> Manifest:
    """The manifest of an exported folder of events.

    Raises:
        StoreError: there is none, it is of a newer version or another format, or the file beside it is another one.
    """
    try:
        manifest = decode((folder / MANIFEST).read_bytes(), Manifest)
    except OSError as error:
        raise StoreError(
            f"{folder} is no exported folder: its {MANIFEST} cannot be read ({error.strerror})."
        ) from error
    except msgspec.DecodeError as error:
        raise StoreError(f"{folder / MANIFEST} is no manifest of an export: {error}.") from error
    if manifest.manifest_version > MANIFEST_VERSION:
        raise StoreError(
            f"{folder} has version {manifest.manifest_version}, this kernelswarm knows {MANIFEST_VERSION}: "
            "install a newer kernelswarm."
        )
    if manifest.format != "events":
        raise StoreError(f"{folder} is an export of format {manifest.format}: only `--format events` can be imported.")
    _check_file(folder, manifest)
    return manifest


def read_events(folder: Path) -> Iterator[Row]:
    """The events of an exported folder in the order of their log; ``seq`` is the line, the hash empty.

    Raises:
        StoreError: a line is no event, or the file ends too soon; names the line.
    """
    line = 0
    try:
        with (folder / EVENTS_FILE).open("rb") as file, zstandard.ZstdDecompressor().stream_reader(file) as raw:
            lines = io.BufferedReader(raw, 1 << 20)
            while data := lines.readline(_LONGEST):
                line += 1
                yield read_message(data.rstrip(b"\n"))._replace(seq=line)
    except (ValueError, msgspec.MsgspecError) as error:
        raise StoreError(f"Line {line} of {folder / EVENTS_FILE} is no event: {error}.") from error
    except (zstandard.ZstdError, OSError) as error:
        raise StoreError(f"{folder / EVENTS_FILE} cannot be read after line {line}: {error}.") from error


def _check_file(folder: Path, manifest: Manifest) -> None:
    entries = [entry for entry in manifest.files if entry.name == EVENTS_FILE]
    try:
        fits = bool(entries) and file_sha256(folder / EVENTS_FILE) == entries[0].sha256
    except OSError as error:
        raise StoreError(f"{folder / EVENTS_FILE} cannot be read: {error.strerror}.") from error
    if not fits:
        line = 0
        for _ in read_events(folder):  # names the first line that is no event, if that is what is wrong
            line += 1
        raise StoreError(
            f"{folder / EVENTS_FILE} is not the file that was exported ({line} lines can be read): export it again."
        )
