"""The suite asks ``kernelswarm evaluate`` and nothing else: once for each problem, all its kernels in one call."""

import pytest
from adversarial import Judge


@pytest.fixture(scope="session")
def judge(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Judge:
    kernels: dict[str, set[str]] = {}
    for item in request.session.items:
        params = getattr(getattr(item, "callspec", None), "params", {})
        if "suite" in params:
            kernels.setdefault(params["suite"], set()).add(params["kernel"])
    return Judge(tmp_path_factory.mktemp("home"), kernels)
