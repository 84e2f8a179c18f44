"""The suite asks ``kernelswarm evaluate`` and nothing else: once for each problem, all its kernels in one call."""

import pytest
from adversarial import Judge

from kernelswarm.hardware.platforms import detect
from kernelswarm.hardware.pools.pool_files import find_pool


@pytest.fixture(scope="session")
def judge(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Judge:
    kernels: dict[str, set[str]] = {}
    for item in request.session.items:
        params = getattr(getattr(item, "callspec", None), "params", {})
        if "suite" in params:
            kernels.setdefault(params["suite"], set()).add(params["kernel"])
    home = tmp_path_factory.mktemp("home")
    judge = Judge(home, kernels)
    # Each of its calls is a process that would measure this machine again.
    detect(find_pool("cpu", home), home)
    return judge
