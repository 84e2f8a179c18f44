"""The finished file in ordinary processes, as in a user's own program (docs/judge/ordinary-processes.md).

Supervisor's side: :mod:`.timed_shapes`, :mod:`.host` (the processes of one shape), :mod:`.rounds`, :mod:`.process`. In
the process, which :mod:`.fork_server` forks: the text of :mod:`.program`.
"""

from .host import EAGER, OrdinaryHost
from .process import Missing
from .settings import Settings
from .timed_shapes import OrdinaryHosts

__all__ = ["EAGER", "Missing", "OrdinaryHost", "OrdinaryHosts", "Settings"]
