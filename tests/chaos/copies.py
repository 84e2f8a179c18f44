"""A second copy of an event on the stream, as one that comes after the window in which the stream knows ids."""

from kernelswarm.bus import Bus
from kernelswarm.bus.subjects import event_subject
from kernelswarm.schemas import Envelope, encode


async def publish_copy(bus: Bus, envelope: Envelope) -> None:
    """Store ``envelope`` once more, without the id by which the stream would drop it.

    Raises:
        BusError: the server stays away or refuses.
    """
    subject = event_subject(envelope.session, envelope.pool, envelope.tag)
    link = bus._link
    await link.retried(f"store a copy of {envelope.tag}", lambda: link.js.publish(subject, encode(envelope)))
