"""How long a text is for a model, as far as that can be known without asking one."""

import math

CHARACTERS = 3
"""Of a token, rather too few than too many."""


def estimated_tokens(text: str) -> int:
    """Tokens of ``text``, rather too many than too few: three characters each."""
    return math.ceil(len(text) / CHARACTERS)
