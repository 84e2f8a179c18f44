"""The skill distiller: what did this session teach?"""

from .agent import Distiller
from .lesson import lesson, trials_of

__all__ = ["Distiller", "lesson", "trials_of"]
