"""Recorded histories as files: wire envelopes, one a line, zstd."""

import re
from collections.abc import Iterable
from pathlib import Path

import zstandard

import kernelswarm
from kernelswarm.schemas import Envelope, decode_envelope, encode
from kernelswarm.store import Log, log_path

FOLDER = Path(__file__).resolve().parent.parent / "histories"
SUFFIX = ".jsonl.zst"


def names() -> list[str]:
    return sorted(path.name.removesuffix(SUFFIX) for path in FOLDER.glob(f"*{SUFFIX}"))


def read(name: str) -> dict[str, list[Envelope]]:
    """Envelopes by session, in the order in which they were recorded."""
    text = zstandard.decompress((FOLDER / f"{name}{SUFFIX}").read_bytes())
    sessions: dict[str, list[Envelope]] = {}
    for line in text.splitlines():
        envelope = decode_envelope(line)
        sessions.setdefault(envelope.session, []).append(envelope)
    return sessions


def into_log(home: Path, envelopes: Iterable[Envelope]) -> None:
    """As a recorder would have written them."""
    with Log.open(log_path(home)) as log:
        start = log.last_seq("history")
        log.append([(seq, encode(envelope)) for seq, envelope in enumerate(envelopes, start + 1)], stream="history")


def write(path: Path, envelopes: Iterable[Envelope]) -> None:
    """Write a history, without names and paths of the machine that it was recorded on."""
    lines = b"".join(encode(envelope) + b"\n" for envelope in envelopes)
    lines = re.sub(rb'"worker":"[^".]+\.', b'"worker":"host.', lines)
    lines = lines.replace(str(Path(kernelswarm.__file__).parent).encode(), b"/kernelswarm")
    lines = re.sub(rb"GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", b"GPU-0", lines)
    path.write_bytes(zstandard.compress(lines, 19))
