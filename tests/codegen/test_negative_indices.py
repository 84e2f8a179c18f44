"""Indices below zero: an error where eager raises one, counted from the end where it counts so."""

import importlib.util

import pytest
import torch
import torch.nn.functional as F

from kernelswarm.codegen.cpp.candidate import generate
from kernelswarm.codegen.ir.tunables import settings
from kernelswarm.hardware.capture.capture import capture
from kernelswarm.schemas import ProblemFacts, Work

OPERATORS = {
    "cross_entropy": lambda x, i: F.cross_entropy(x, i, label_smoothing=0.1),
    "gather": lambda x, i: x.gather(1, i[:, None]) * 2,
    "index_select": lambda x, i: x.index_select(1, i) * 2,
    "embedding": lambda x, i: F.embedding(i, x) * 2,
    "index": lambda x, i: x[:, i] * 2,
}


@pytest.mark.parametrize("name", OPERATORS)
def test_they_are_what_they_are_for_the_reference(name, tmp_path):
    function, x, indices = OPERATORS[name], torch.randn(6, 10), torch.tensor([0, 3, 5, 1, 2, 4])
    graph = capture(function, [x, indices])
    work = Work(read_bytes=1, write_bytes=1, flops=1)
    facts = ProblemFacts(
        signature=(), shapes=(), graph=graph, work=work, dtype="float32", float64_oracle=True, is_module=False
    )
    path = tmp_path / "candidate.py"
    path.write_text(generate(facts, graph, settings({})).source)
    spec = importlib.util.spec_from_file_location("candidate", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    torch.testing.assert_close(module.kernel(x, indices), function(x, indices))
    indices[3] = -1
    try:
        expected = function(x, indices)
    except (IndexError, RuntimeError):
        with pytest.raises(IndexError, match="out of range"):
            module.kernel(x, indices)
    else:
        torch.testing.assert_close(module.kernel(x, indices), expected)
