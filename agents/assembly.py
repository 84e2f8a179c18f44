"""The machine code of a node's candidate, bounded, for whoever asks: authors with tools, outside agents, people."""

import asyncio
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from ..graph.session_graph import SearchGraph
from ..hardware.languages.assembly import excerpts, machine_code
from ..schemas import Artifact, BusError, InputError, sha256

if TYPE_CHECKING:
    from ..bus import Bus


async def assembly_of(graph: SearchGraph, node: str, home: Path, bus: "Bus | None" = None) -> str:
    """Innermost loops first, from the artifact in the cache of ``home``, or else on ``bus``.

    Raises:
        InputError: the node has no artifact, it is nowhere to be had, or nothing can be read off it.
        PoolError: the tool that prints machine code is not here.
    """
    record = graph.nodes.get(node)
    if record is None:
        raise InputError(f"session {graph.session} has no node {node!r}")
    report = record.compile_report
    if report is None or not report.ok:
        raise InputError(f"node {node} has no machine code: it was not compiled")
    if not report.artifacts:
        raise InputError(f"node {node} has no machine code of its own: nothing of its file is compiled ahead")
    texts: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="kernelswarm-assembly-") as folder:
        for artifact in report.artifacts:
            path = await _located(artifact, home, bus, Path(folder))
            if path is None:
                raise InputError(
                    f"the artifact of node {node} ({artifact.name}) is neither in {home / 'artifacts'} nor on the "
                    "event bus: `kernelswarm compile` makes it again from the node's source"
                )
            texts |= await machine_code(path)
    if not texts:
        raise InputError(
            f"node {node} was compiled by programs that its file starts: no machine code is read off those"
        )
    return await asyncio.to_thread(excerpts, texts)


async def _located(artifact: Artifact, home: Path, bus: "Bus | None", folder: Path) -> Path | None:
    """A file with the bytes of ``artifact``; None where nobody has them."""
    name = Path(artifact.name).name
    kept = home / "artifacts" / name
    if await asyncio.to_thread(_holds, kept, artifact):
        return kept
    if bus is None:
        return None
    try:
        data = await bus.get_artifact(artifact.sha256)
    except BusError:
        return None
    await asyncio.to_thread((folder / name).write_bytes, data)
    return folder / name


def _holds(path: Path, artifact: Artifact) -> bool:
    try:
        return sha256(path.read_bytes()) == artifact.sha256
    except OSError:
        return False
