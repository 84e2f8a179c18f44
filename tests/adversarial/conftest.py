"""The suite asks ``kernelswarm evaluate`` and nothing else: once for each problem, all its kernels in one call."""

import pytest
from adversarial import Judge


@pytest.fixture(scope="session")
def judge(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Judge:
    wanted: dict[str, set[str]] = {}
    for item in request.session.items:
        asked = getattr(getattr(item, "callspec", None), "params", {})
        if "suite" in asked:
            wanted.setdefault(asked["suite"], set()).add(asked["kernel"])
    return Judge(tmp_path_factory.mktemp("home"), wanted)
