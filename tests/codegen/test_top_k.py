"""The few largest of a row: picked, and what is computed of them, in the kernel of the row."""

import pytest
import torch
from compared import Pair
from graphs import HARDWARE

from kernelswarm.codegen.backends import CODEGEN_BACKENDS


def rows(*shape, dtype=torch.float32):
    return lambda: [torch.randn(*shape).to(dtype)]


def router(x):
    values, places = torch.softmax(x, -1).topk(2, -1)
    return torch.zeros_like(x).scatter(-1, places, values / values.sum(-1, keepdim=True))


def grouped(scores, bias):
    places = (scores.sigmoid() + bias).topk(3, -1)[1]
    weights = scores.sigmoid().gather(-1, places)
    return places, weights * 2.5 / (weights.sum(-1, keepdim=True) + 1e-6)


def threshold(x):
    values = torch.topk(x, 4, -1).values
    return x.masked_fill(x < values[..., -1:], 0.0), values[..., 1:3].mean(-1), values[..., 0]


def counted(x):
    places = x.topk(2, -1).indices
    used = torch.zeros_like(x).scatter_add(-1, places, torch.ones_like(x[..., :2]))
    return used.scatter(-1, places, 7.0)


@pytest.mark.parametrize(
    ("function", "maker"),
    [
        pytest.param(router, rows(70, 64), id="router"),
        pytest.param(grouped, lambda: [torch.randn(5, 33, 24), torch.randn(24)], id="gathered"),
        pytest.param(threshold, rows(65, 40), id="threshold"),
        pytest.param(counted, rows(65, 16), id="counted"),
        pytest.param(lambda x: tuple(x.topk(5, -1, largest=False)), rows(50, 37), id="smallest"),
        pytest.param(lambda x: tuple(x.topk(3)), rows(50, 37, dtype=torch.bfloat16), id="half"),
    ],
)
def test_few_picks_are_one_kernel(function, maker, tmp_path):
    torch.manual_seed(0)
    pair = Pair(function, maker(), "cpp", tmp_path / "picked.py")
    assert "1 C++ kernel." in pair.source
    for _ in range(2):
        pair.call(maker, falls_back=False)


def test_special_values_have_the_order_that_pytorch_gives_them(tmp_path):
    nan, inf = float("nan"), float("inf")
    given = torch.tensor([[1, nan, inf, -inf], [-inf, -inf, -inf, -1], [-0.0, -2, -3, -inf], [nan, nan, 3, 4]])
    largest = Pair(lambda x: tuple(x.topk(3)), [given], "cpp", tmp_path / "largest.py")
    smallest = Pair(lambda x: tuple(x.topk(3, largest=False)), [given], "cpp", tmp_path / "smallest.py")
    for pair, sign in ((largest, True), (smallest, False)):
        values, places = pair.kernel(given)
        torch.testing.assert_close(values, given.topk(3, largest=sign).values, equal_nan=True)
        torch.testing.assert_close(given.gather(-1, places), values, equal_nan=True)
        assert all(len(set(row)) == 3 for row in places.tolist())


def test_rows_shorter_than_the_picks_are_refused_as_pytorch_refuses_them(tmp_path):
    pair = Pair(router, [torch.randn(8, 6)], "cpp", tmp_path / "short.py")
    with pytest.raises(RuntimeError, match="out of range"):
        pair.kernel(torch.randn(8, 1))


def test_a_number_of_picks_that_is_an_argument_is_left_to_pytorch(tmp_path):
    given = [torch.randn(8, 30), 4]
    pair = Pair(lambda x, k: tuple(torch.softmax(x, -1).topk(k)), given, "cpp", tmp_path / "argument.py")
    for k in (4, 3):
        pair.call(lambda k=k: [torch.randn(8, 30), k], falls_back=False)
    with pytest.raises(RuntimeError, match="out of range"):
        pair.kernel(torch.randn(8, 3), 4)


def test_many_picks_and_whole_numbers_are_left_to_pytorch(tmp_path):
    for number, (function, given) in enumerate(
        [
            (lambda x: tuple((x + 1).topk(9)), torch.randn(8, 30)),
            (lambda x: tuple((x + 1).topk(2)), torch.arange(12).view(3, 4)),
        ]
    ):
        pair = Pair(function, [given], "cpp", tmp_path / f"left{number}.py")
        assert "left to PyTorch: aten.topk.default" in pair.source
        pair.call(lambda given=given: [given])


def test_picks_among_picked_groups_keep_their_names_apart(tmp_path):
    def gate(scores, bias):
        choice = scores.sigmoid() + bias
        groups = choice.view(-1, 4, 4).topk(2, -1)[0].sum(-1)
        used = torch.zeros_like(groups).scatter(1, groups.topk(2, -1)[1], 1.0)
        kept = choice.masked_fill(used.bool().unsqueeze(-1).expand(-1, 4, 4).reshape(-1, 16).logical_not(), 0.0)
        places = kept.topk(4, -1)[1]
        weights = scores.sigmoid().gather(1, places)
        return places, weights / weights.sum(-1, keepdim=True)

    def maker():
        return [torch.randn(40, 16), torch.rand(16)]

    pair = Pair(gate, maker(), "cpp", tmp_path / "gate.py")
    assert "left to PyTorch" not in pair.source
    pair.call(maker, falls_back=False)


def test_a_kernel_that_stores_picks_side_by_side_has_tunables(tmp_path):
    def routing(logits):
        weights, experts = torch.softmax(logits, -1).topk(2, -1)
        return weights / weights.sum(-1, keepdim=True), experts

    pair = Pair(routing, rows(70, 64)(), "cpp", tmp_path / "routing.py")
    assert CODEGEN_BACKENDS["cpp"].tunables(pair.graph, HARDWARE)
    pair.call(rows(70, 64), falls_back=False)
