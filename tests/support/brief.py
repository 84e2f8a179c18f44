"""Short measurements, for tests that ask anything but how well it measures: each search would wait ten seconds for it.

As a program: the command line that measures like this, ``python brief.py swarm --pool cpu …``.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from kernelswarm.hardware.harness import contest

PLAN = contest.Plan(processes=2, least_rounds=4, most_rounds=40, seconds=0.05, width=0.01)


@contextmanager
def measurements() -> Iterator[None]:
    """Finalists are measured briefly while the body runs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(contest, "THOROUGH", PLAN)
        yield


if __name__ == "__main__":
    from kernelswarm.cli.__main__ import main

    contest.THOROUGH = PLAN
    main()
