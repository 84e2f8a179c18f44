"""What agents at the device have in common: a candidate's source, and its artifacts on this host."""

import asyncio

from ..bus import Bus
from ..hardware.device import Device
from ..schemas import CompileReport, KernelswarmError
from .runtime import Agent, Work


class DeviceAgent(Agent):
    """A role that works on the pool's device, which is closed by who opened it."""

    def __init__(self, device: Device, bus: Bus) -> None:
        self._device = device
        self._bus = bus


async def source_of(work: Work) -> str:
    """Source of the candidate that ``work`` speaks of.

    Raises:
        KernelswarmError: the session's history does not hold it.
    """
    record = work.graph.nodes.get(work.envelope.node)
    if record is None or record.candidate is None:
        raise KernelswarmError(f"node {work.envelope.node} of {work.envelope.session} has no candidate on the bus")
    return record.candidate.source


async def installed(report: CompileReport, device: Device, bus: Bus) -> None:
    """Bring the artifacts of ``report`` to this host, unless they are here."""
    for artifact in report.artifacts:
        if not await asyncio.to_thread(device.has, artifact):
            await device.install(artifact, await bus.get_artifact(artifact.sha256))
