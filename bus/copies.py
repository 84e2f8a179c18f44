"""A second copy of an event on the stream, as one that comes after the window in which the stream knows ids."""

from ..schemas import Envelope, encode
from .client import Bus
from .subjects import event_subject


async def publish_copy(bus: Bus, envelope: Envelope) -> None:
    """Store ``envelope`` once more, without the id by which the stream would drop it. For fault injection and tests.

    Raises:
        BusError: the server stays away or refuses.
    """
    subject = event_subject(envelope.session, envelope.pool, envelope.tag)
    link = bus._link
    await link.retried(f"store a copy of {envelope.tag}", lambda: link.js.publish(subject, encode(envelope)))
