"""What the tests of the whole ring share."""

from collections.abc import Iterator

import brief
import pytest


@pytest.fixture(autouse=True, scope="module")
def _measuring_is_brief() -> Iterator[None]:
    with brief.measurements():
        yield
