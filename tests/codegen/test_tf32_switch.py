"""Candidates with library convolutions in programs that set torch's switches."""

import subprocess
import sys

import pytest
import torch

from kernelswarm.codegen.lowering.library_convolutions import TF32_PERMITTED


@pytest.mark.parametrize("precision", ["tf32", "ieee"])
def test_candidates_ask_for_tf32_as_torch_has_it_for_convolutions(precision):
    """Reading ``allow_tf32`` raises in a program that sets the newer switches one by one."""
    names = {"torch": torch}
    exec(TF32_PERMITTED, names)
    permitted = names["_tf32_permitted"]
    before = torch.backends.cudnn.conv.fp32_precision
    torch.backends.cudnn.conv.fp32_precision = precision
    torch._dynamo.reset()
    try:
        compiled = torch.compile(lambda x: x + int(permitted()), backend="eager", fullgraph=True)
        assert permitted() == (precision == "tf32") == bool(compiled(torch.zeros(1)))
    finally:
        torch.backends.cudnn.conv.fp32_precision = before


def test_candidates_do_not_import_the_compiler():
    """That takes five seconds in every process that loads one, a user's as well."""
    program = f"import sys, torch\n{TF32_PERMITTED}\n_tf32_permitted()\nsys.exit('torch._dynamo' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=120).returncode == 0
