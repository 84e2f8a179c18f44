"""What the command line compiles is what the agents compile."""

from pathlib import Path

import pytest

from kernelswarm.hardware.languages.assembly import language_of
from kernelswarm.hardware.languages.compiling import missing_packages, read_candidate
from kernelswarm.schemas import InputError

NATIVE = 'import torch\n\nCPP_SOURCE = "int f() { return 1; }"\n\ndef kernel(x):\n    return _load()\n'
TRITON = "import triton\n\n@triton.jit\ndef add(x):\n    pass\n"


def test_a_file_that_leaves_the_loader_out_gets_it(tmp_path: Path) -> None:
    (tmp_path / "kernel.py").write_text(NATIVE)
    assert "def _load" in read_candidate(tmp_path / "kernel.py")
    (tmp_path / "beside.py").write_text("x = 1\n")
    (tmp_path / "needs.py").write_text("import beside\n" + NATIVE)
    with pytest.raises(InputError, match="beside"):
        read_candidate(tmp_path / "needs.py")


def test_packages_that_are_not_installed_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name in ("tilelang", "cutlass") else name)
    source = "import torch\nimport tilelang.language as T\n\ndef kernel(x):\n    from cutlass import cute\n"
    first, second = missing_packages(source)
    assert (first.line, second.line) == (5, 2) or (first.line, second.line) == (2, 5)
    messages = first.message + second.message
    assert "pip install tilelang" in messages and "pip install nvidia-cutlass-dsl" in messages
    assert missing_packages("import torch, missing\n") == () == missing_packages("def (")


def test_a_decorator_of_another_package_makes_no_triton_kernel() -> None:
    assert language_of(TRITON, "cpp") == "triton"
    assert language_of(TRITON.replace("triton", "cute"), "cpp") == "cpp"
