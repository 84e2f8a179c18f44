"""How events travel: the only folder that knows NATS."""

from typing import TYPE_CHECKING

from ..lazy_exports import lazy_exports

if TYPE_CHECKING:
    from .acks import IN_FLIGHT
    from .asked import asked_bus
    from .client import Bus
    from .consumer import Consumer, Delivery
    from .errors import NobodyServes
    from .fair import FairConsumer
    from .local import STILL_USED, embedded, running
    from .options import VARIABLES, ConnectOptions, connecting_with
    from .reader import Tail
    from .rpc import Service
    from .server import MAX_PAYLOAD, server_binary
    from .subjects import ANY
else:
    __getattr__, __dir__ = lazy_exports(__name__)
    __all__ = __dir__()
