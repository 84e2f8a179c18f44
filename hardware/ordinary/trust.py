"""What an ordinary process may do."""

TRUSTED = "trusted"
"""Write and start programs: a baseline compiles, and what it runs is the user's own."""
COMPILES = "compiles"
"""Start programs: Triton compiles in the process that launches."""
CONFINED = "confined"
"""Neither."""
