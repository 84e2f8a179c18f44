"""A live operator becomes a problem file that computes the same. One subprocess: torch takes seconds to import."""

import json
import subprocess
import sys

import pytest
from waiting import LONG_S

CODE = """
import json, torch
import torch.nn.functional as F
from kernelswarm.hardware.sources.from_python import trace
from kernelswarm.schemas import ProblemError

offset = torch.randn(64)

class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.GELU(), torch.nn.LayerNorm(32))
    def forward(self, x, *, scale=2.0):
        return self.inner(x) * scale

def softmax(x, weight, dim=-1):
    return F.softmax(x + offset, dim) * weight

def kept_edges(x, e):
    e = e[:, e[0] != e[1]]
    return torch.zeros_like(x).index_add(0, e[0], x[e[1]] * torch.ones(e.shape[1], 1))

turns = torch.arange(500)

cases = {
    "module": (Block(), [torch.randn(8, 64)]),
    "closure": (softmax, [torch.randn(4, 64), torch.rand(64)]),
    "by_name": (softmax, {"weight": torch.rand(64), "x": torch.randn(4, 64)}),
    "lambda": (lambda x, s: x * s, [torch.randn(3), 2.5]),
    "lookup": (lambda x, b: torch.bucketize(x, b), [torch.randn(100), torch.arange(10.0)]),
    "integers": (lambda i, t: t[i], [torch.randint(0, 5, (9,)), torch.randn(5, 3)]),
    "tuple": (lambda x: (x.sum(-1), x > 0), [torch.randn(4, 6)]),
    "expanded": (lambda x, m: torch.where(m, x, 0.0), [torch.randn(3, 4), (torch.rand(1, 4) < 0.5).expand(3, -1)]),
    "transposed": (lambda x, i: x.reshape(-1)[i], [torch.randn(4, 6).t(), torch.arange(12)[::2]]),
}
out = {}
for name, (operator, inputs) in cases.items():
    traced = trace(operator, inputs)
    module = {}
    exec(traced.problem.source, module)
    by_name = isinstance(inputs, dict)
    values = [inputs["x"], inputs["weight"]] if by_name else inputs
    tensors = [value for value in values if isinstance(value, torch.Tensor)]
    got, expected = module["reference"](*tensors, *traced.parameters), operator(*values)
    same = all(torch.equal(a, b) for a, b in zip(*map(lambda y: y if isinstance(y, tuple) else (y,), (got, expected))))
    drawn = module["inputs"](torch.Generator().manual_seed(1))
    again = module["inputs"](torch.Generator().manual_seed(1))
    module["reference"](*drawn)
    form = lambda t: (t.shape, t.dtype, t.stride())
    alike = [form(d) == form(t) for d, t in zip(drawn, [*tensors, *traced.parameters])]
    repeats = all(torch.equal(a, b) for a, b in zip(drawn, again))
    ordered = name != "lookup" or bool((drawn[1].diff() >= 0).all())
    out[name] = [same, all(alike), repeats, ordered, traced.problem.name]
for name, bad in {"untraceable": (lambda x: x if x.sum() > 0 else -x, [torch.randn(3)]),
                  "wrong_arity": (softmax, [torch.randn(3)]), "not_a_tensor": (softmax, ["x", "y"]),
                  "dropout": (torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Dropout(0.1)), [torch.randn(3)]),
                  "evaluation": (torch.nn.Sequential(torch.nn.Dropout(0.1)).eval(), [torch.randn(3)]),
                  "numpy": (lambda x: torch.from_numpy(x.numpy() * 2), [torch.randn(3)]),
                  "sizes_by_values": (kept_edges, [torch.randn(20, 3), torch.stack([turns % 20, (turns + 1) % 20])]),
                  "mask": (lambda x, e: x[e > 4].sum(), [torch.randn(9), torch.arange(9)])}.items():
    try:
        trace(*bad)
        out[name] = "traced"
    except ProblemError as error:
        out[name] = str(error)
print(json.dumps(out))
"""


@pytest.fixture(scope="module")
def outcome() -> dict[str, object]:
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", CODE], capture_output=True, text=True, timeout=LONG_S)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    "case", ["module", "closure", "by_name", "lambda", "lookup", "integers", "tuple", "expanded", "transposed"]
)
def test_the_file_computes_what_the_operator_does(outcome: dict[str, list[object]], case: str) -> None:
    same, alike, repeats, ordered, name = outcome[case]
    assert (same, alike, repeats, ordered) == (True, True, True, True)
    assert str(name).replace("_", "a").isalnum()


@pytest.mark.parametrize(
    ("case", "message"),
    [
        ("wrong_arity", "; it takes "),
        ("not_a_tensor", "'x' is a str"),
        ("dropout", "sequential is in training mode, where its part '1', a Dropout, draws random numbers"),
        ("evaluation", "traced"),
        ("sizes_by_values", "kept_edges has sizes that depend on the values of e, and a kernel is judged on"),
        ("mask", "traced"),
        ("numpy", ".numpy() takes its tensors out of PyTorch; use PyTorch's operators"),
    ],
)
def test_what_cannot_be_traced_is_one_sentence(outcome: dict[str, str], case: str, message: str) -> None:
    assert message in outcome[case]


def test_control_flow_on_data_is_refused(outcome: dict[str, str]) -> None:
    assert "cannot be traced" in outcome["untraceable"]
