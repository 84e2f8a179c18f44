"""A checkout in KernelBench's format, with problems of our own that take no time."""

from collections.abc import Iterator
from pathlib import Path

import brief
import pytest

from kernelswarm.hardware.platforms import detect
from kernelswarm.hardware.pools.pool_files import find_pool

RIGHT = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.scale = scale

    def forward(self, x):
        return torch.sigmoid(x * self.scale) * x + 1.0

def get_inputs():
    return [torch.randn(64, 256)]

def get_init_inputs():
    return [0.5]
"""

ANY_ANSWER = RIGHT.replace("return torch.sigmoid(x * self.scale) * x + 1.0", "return x * 0.0")
ENDS = "import os\nos._exit(3)\n" + RIGHT
NO_MODEL = "import torch\n"


@pytest.fixture(autouse=True, scope="module")
def _measuring_is_brief() -> Iterator[None]:
    with brief.measurements():
        yield


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four problems of level 1, and level 2."""
    root = tmp_path_factory.mktemp("checkout")
    files = {"1_Gate": RIGHT, "2_Nothing": ANY_ANSWER, "3_Ends": ENDS, "10_No_model": NO_MODEL}
    for level in (1, 2):
        folder = root / "KernelBench" / f"level{level}"
        folder.mkdir(parents=True)
        (folder / "README.md").touch()
        for name, source in files.items():
            (folder / f"{name}.py").write_text(source)
    return root


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a pool that times against eager alone: nothing is compiled for a baseline."""
    home = tmp_path_factory.mktemp("home")
    (home / "pools").mkdir()
    (home / "pools" / "bare.toml").write_text(
        'name = "bare"\nplatform = "cpu"\nlanguages = ["cpp"]\nbaselines = ["eager"]\n'
    )
    detect(find_pool("bare", home), home)  # measures the machine, which each process would do while others run
    return home
