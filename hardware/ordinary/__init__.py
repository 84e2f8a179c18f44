"""The finished file in ordinary processes: what a user's own program would see of it (docs/judge.md).

Supervisor's side: :mod:`.timed_shapes`, :mod:`.host` (the processes of one shape), :mod:`.rounds`, :mod:`.process`. In
the process: :mod:`.walls`, then the text of :mod:`.program` in an interpreter of its own.
"""

from .host import EAGER, OrdinaryHost
from .process import Missing
from .settings import Settings
from .timed_shapes import OrdinaryHosts

__all__ = ["EAGER", "Missing", "OrdinaryHost", "OrdinaryHosts", "Settings"]
