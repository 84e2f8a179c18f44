"""What the tests of the whole ring share."""

from collections.abc import Iterator

import pytest

from kernelswarm.hardware.harness import contest


@pytest.fixture(autouse=True, scope="module")
def _measuring_is_brief() -> Iterator[None]:
    """How well it measures is asked elsewhere; here every search would wait ten seconds for it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            contest, "THOROUGH", contest.Plan(processes=2, least_rounds=4, most_rounds=40, seconds=0.05, width=0.01)
        )
        yield
