"""The suite asks ``kernelswarm evaluate`` and nothing else: once for each problem, all its kernels in one call."""

import pytest
from adversarial import Judge


@pytest.fixture(scope="session")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Judge:
    return Judge(tmp_path_factory.mktemp("home"))
