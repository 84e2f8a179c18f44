"""Sorts and top-k: an answer that differs in the order of equal values alone is wrong, and is said to be just that."""

from pathlib import Path

import pytest
import torch

from kernelswarm.hardware.device import Device
from kernelswarm.hardware.harness.reference.ties import names_equal_values
from kernelswarm.hardware.sources.problem_files import load_problem
from kernelswarm.schemas import EQUAL_VALUES, Verdict

SORT = """
import torch

shapes = {"main": dict(rows=16, cols=64)}

def inputs(generator, rows, cols):
    return [torch.randint(0, 9, (rows, cols), generator=generator).float()]

def reference(x):
    values, indices = torch.sort(x, dim=-1, descending=True, stable=True)
    return values[:, :8], indices[:, :8]
"""
LAST_FIRST = """
import torch

def kernel(x):
    values, indices = torch.sort(x.flip(-1), dim=-1, descending=True, stable=True)
    return values[:, :8].contiguous(), (x.shape[-1] - 1 - indices[:, :8]).contiguous()
"""

X = torch.tensor([[3.0, 1.0, 3.0, 2.0], [0.0, 5.0, 5.0, 5.0]])
RIGHT = torch.tensor([[0, 2], [1, 2]])


@pytest.mark.parametrize(
    ("got", "equal"),
    [
        ([[2, 0], [2, 1]], True),
        ([[0, 2], [1, 3]], True),
        ([[0, 2], [1, 1]], False),
        ([[0, 3], [1, 2]], False),
        ([[0, 4], [1, 2]], False),
        ([[0, -2], [1, 2]], False),
    ],
    ids=["within", "at the edge", "one twice", "another value", "beyond", "below"],
)
def test_indices_into_an_input_point_at_equal_values_or_not(got: list, equal: bool) -> None:
    assert names_equal_values(torch.tensor(got), RIGHT, [X]) is equal
    assert names_equal_values(torch.tensor(got).T.contiguous(), RIGHT.T.contiguous(), [X.T.contiguous()]) is equal


def test_where_the_values_are_computed_those_that_are_returned_tell() -> None:
    values, right = torch.tensor([[0.4, 0.3, 0.3]]), torch.tensor([[7, 2, 5]])
    assert names_equal_values(torch.tensor([[7, 5, 2]]), right, [values])
    assert not names_equal_values(torch.tensor([[2, 7, 5]]), right, [values])
    assert not names_equal_values(torch.tensor([[7, 2, 6]]), right, [values])


def test_an_argmax_may_point_at_another_of_the_largest() -> None:
    assert names_equal_values(torch.tensor([2, 3]), torch.tensor([0, 1]), [X])
    assert not names_equal_values(torch.tensor([2, 0]), torch.tensor([0, 1]), [X])


@pytest.mark.asyncio(loop_scope="session")
async def test_another_order_of_equal_values_is_wrong_and_named(device: Device, tmp_path: Path) -> None:
    (tmp_path / "sort.py").write_text(SORT)
    problem = load_problem(tmp_path / "sort.py")
    facts = await device.validate_problem(problem)
    report, _ = await device.compile(LAST_FIRST, "cpp")
    judged = await device.verify(problem, LAST_FIRST, report)
    for verified in (judged, await device.check(problem, facts, LAST_FIRST, report)):
        assert verified.verdict is Verdict.wrong_numbers and verified.evidence is not None
        assert verified.evidence.message.startswith(EQUAL_VALUES) and "output 1[" in verified.evidence.message
