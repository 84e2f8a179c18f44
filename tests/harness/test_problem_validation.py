"""What is found out about a problem, and the sentence its author gets if it cannot be searched."""

from pathlib import Path

import pytest

from kernelswarm.hardware.device import Device
from kernelswarm.hardware.harness.validation_process import memory_needed
from kernelswarm.hardware.sources.problem_files import load_problem
from kernelswarm.schemas import Problem, ProblemError, ProblemFacts, encode

pytestmark = pytest.mark.asyncio(loop_scope="session")

HEAD = "import torch\nshapes = {'main': dict(n=64)}\n"
INPUTS = "def inputs(generator, n): return [torch.randn(n, generator=generator)]\n"
REFERENCE = "def reference(x): return x.exp()\n"


def _problem(folder: Path, source: str) -> Problem:
    path = folder / "mine.py"
    path.write_text(source)
    return load_problem(path)


async def test_facts_say_what_the_search_needs(facts: ProblemFacts) -> None:
    assert facts.signature == ("x", "w")
    assert [shape.name for shape in facts.shapes] == ["main", "ragged"]
    x, w = facts.shapes[0].inputs
    assert (x.name, x.kind, x.shape, x.dtype) == ("x", "tensor", (64, 512), "float32")
    assert w.shape == (512,)
    assert facts.shapes[1].outputs[0].shape == (7, 33)
    assert facts.dtype == "float32"
    assert facts.float64_oracle
    assert facts.graph is not None, facts.capture_error
    assert "aten.rsqrt.default" in facts.operators
    assert facts.work.read_bytes == (64 * 512 + 512) * 4
    assert facts.work.write_bytes == 64 * 512 * 4
    assert facts.error_bounds == {"output_0": facts.error_bound}
    assert facts.error_bound is not None and 16 * 2.0**-23 <= facts.error_bound < 1e-5
    assert encode(facts)


@pytest.mark.parametrize(
    ("tolerance", "bound"), [("1e-3", 1e-3), ("{'atol': 1e-6, 'rtol': 1e-5}", None)], ids=["relative", "absolute"]
)
async def test_facts_say_what_error_the_problem_allows(
    device: Device, tmp_path: Path, tolerance: str, bound: float | None
) -> None:
    facts = await device.validate_problem(_problem(tmp_path, f"{HEAD}{INPUTS}{REFERENCE}tolerance = {tolerance}\n"))

    assert facts.error_bound == bound


BAD: dict[str, tuple[str, str]] = {
    "does not import": (HEAD + INPUTS + REFERENCE + "import nowhere\n", "neither installed nor a file beside it"),
    "needs cuda": (
        HEAD + "def inputs(generator, n): return [torch.randn(n, device='cuda')]\n" + REFERENCE,
        "asks for cuda, pool cpu has none",
    ),
    "reference needs cuda": (HEAD + INPUTS + "def reference(x): return x.cuda().exp()\n", "asks for cuda"),
    "returns nothing": (HEAD + INPUTS + "def reference(x): x.exp()\n", "returns nothing"),
    "forgets to return": (
        "import torch\nclass Model(torch.nn.Module):\n"
        "    def __init__(self):\n        super().__init__()\n        self.norm = torch.nn.BatchNorm1d(8)\n"
        "    def forward(self, x): torch.relu(self.norm(x))\ndef get_inputs(): return [torch.randn(32, 8)]\n",
        "returns nothing, and all it leaves are statistics of its norms",
    ),
    "returns text": (HEAD + INPUTS + "def reference(x): return 'text'\n", "returns a str"),
    "random reference": (
        HEAD + INPUTS + "def reference(x): return torch.nn.functional.dropout(x, 0.5)\n",
        "is not deterministic: output 0",
    ),
    "random in training mode": (
        "import torch\nclass Model(torch.nn.Module):\n"
        "    def __init__(self):\n        super().__init__()\n        self.drop = torch.nn.Dropout(0.5)\n"
        "    def forward(self, x): return self.drop(x)\ndef get_inputs(): return [torch.randn(32, 8)]\n",
        "alike in evaluation mode: call eval",
    ),
    "random in training mode, broken in the other": (
        "import torch\nclass Model(torch.nn.Dropout):\n"
        "    def forward(self, x): return super().forward(x) if self.training else None\n"
        "def get_inputs(): return [torch.randn(32, 8)]\n",
        "a random step must become an input",
    ),
    "random inputs": (
        "import torch, os\nshapes = {'main': dict(n=64)}\n"
        "def inputs(generator, n): return [torch.full((n,), float(int.from_bytes(os.urandom(3))))]\n" + REFERENCE,
        "is not deterministic: inputs",
    ),
    "too large": (
        "import torch\nshapes = {'main': dict(n=2**40)}\n" + INPUTS + REFERENCE,
        "does not fit in memory",
    ),
    "reference fails": (HEAD + INPUTS + "def reference(x): return x @ torch.ones(3, 3)\n", "fails on its own inputs"),
    "reference fails at one shape": (
        "import torch\nshapes = {'main': dict(n=64), 'odd': dict(n=7)}\n"
        + INPUTS
        + "def reference(x): return x.reshape(-1, 2).exp()\n",
        "fails on its own inputs at shape 'odd' (n=7; x [7]): RuntimeError: shape '[-1, 2]' is invalid",
    ),
    "shapes is a list": (HEAD.replace("{'main': dict(n=64)}", "[64]") + INPUTS + REFERENCE, "has no `shapes`"),
    "inputs of another kind": (
        HEAD + "def inputs(generator, n): return [(i for i in range(n))]\n" + REFERENCE,
        "input x is a generator; give tensors, or what Python can pickle",
    ),
    "zeros would do": (HEAD + INPUTS + "def reference(x): return x * 0\n", "an answer of all 0 passes"),
    "a number of its own": (HEAD + INPUTS + "def reference(x): return 3\n", "returns 3 for different inputs"),
    "the input would do": (HEAD + INPUTS + "def reference(x): return x + 0\n", "input 0 itself passes"),
    "the first row would do": (
        "import torch\nshapes = {'main': dict(n=64)}\n"
        "def inputs(generator, n): return [torch.randn(n, 8, generator=generator)]\n"
        "def reference(x): return x * (torch.arange(len(x)) == 0)[:, None] * 2\n",
        "the first row alone passes",
    ),
    "all rows are alike": (
        "import torch\nshapes = {'main': dict(n=64)}\n"
        "def inputs(generator, n): return [torch.randn(n, 8, generator=generator)]\n"
        "def reference(x): return x.softmax(0).sum(0).add(x.mean(0)).expand_as(x) * 2\n",
        "the first row everywhere passes",
    ),
    "everything would do": (HEAD + INPUTS + REFERENCE + "tolerance = 10.0\n", "decides nothing"),
    "tolerance nobody understands": (HEAD + INPUTS + REFERENCE + "tolerance = 'loose'\n", "tolerance = 'loose'"),
    "ends the process": ("import os\nos._exit(3)\n" + HEAD + INPUTS + REFERENCE, "exited with status 3"),
}


@pytest.mark.parametrize("name", BAD)
async def test_a_bad_problem_gets_one_sentence(device: Device, tmp_path: Path, name: str) -> None:
    source, message = BAD[name]

    with pytest.raises(ProblemError) as caught:
        await device.validate_problem(_problem(tmp_path, source))

    assert message in str(caught.value)
    assert "mine.py" in str(caught.value)
    assert "\n" not in str(caught.value)


async def test_integers_and_several_outputs(device: Device, tmp_path: Path) -> None:
    source = (
        "import torch\nshapes = {'main': dict(n=1000)}\n"
        "def inputs(generator, n): return [torch.randint(0, 99, (n,), generator=generator), 3]\n"
        "def reference(x, k): return (x // k, [x > k, x.float().mean()])\n"
    )

    facts = await device.validate_problem(_problem(tmp_path, source))

    assert [output.dtype for output in facts.shapes[0].outputs] == ["int64", "bool", "float32"]
    assert facts.shapes[0].inputs[1].kind == "int"
    assert facts.dtype == "float32"


async def test_inputs_may_be_objects_without_tensors(device: Device, tmp_path: Path) -> None:
    source = (
        "import enum\nfrom dataclasses import dataclass\nimport torch\nshapes = {'main': dict(n=64)}\n"
        "class Mode(enum.Enum):\n    mean = 1\n"
        "@dataclass\nclass Config:\n    eps: float = 1e-6\n"
        "def inputs(generator, n):\n"
        "    return [torch.randn(n, 8, generator=generator), Config(), Mode.mean, torch.nn.ReLU()]\n"
        "def reference(x, config, mode, act): return act(x).mean(-1) + config.eps if mode is Mode.mean else None\n"
    )

    facts = await device.validate_problem(_problem(tmp_path, source))

    assert [fact.kind for fact in facts.shapes[0].inputs] == ["tensor", "other", "other", "other"]
    assert facts.graph is not None, "the generator takes them, too"


async def test_a_reference_that_asks_for_float32_still_gets_a_float64_oracle(device: Device, tmp_path: Path) -> None:
    source = (
        "import torch\nshapes = {'main': dict(n=1000)}\n"
        "def inputs(generator, n): return [torch.randn(n, generator=generator).bfloat16()]\n"
        "def reference(x): return (x.float() * torch.ones(1, dtype=torch.float32)).exp().to(x.dtype)\n"
    )

    facts = await device.validate_problem(_problem(tmp_path, source))

    assert facts.dtype == "bfloat16"
    assert facts.float64_oracle


async def test_a_reference_without_float64_is_its_own_oracle(device: Device, tmp_path: Path) -> None:
    source = (
        "import torch\nshapes = {'main': dict(n=1000)}\n"
        "def inputs(generator, n): return [torch.randn(n, generator=generator)]\n"
        "def reference(x):\n    assert x.dtype == torch.float32\n    return x.exp()\n"
    )
    problem = _problem(tmp_path, source)

    facts = await device.validate_problem(problem)
    kernel = "def kernel(x): return x.exp()"
    report, _ = await device.compile(kernel, "cpp")
    verified = await device.verify(problem, kernel, report)

    assert not facts.float64_oracle
    assert verified.verdict == "correct"
    assert {case.bound for case in verified.cases} == {2e-5}


async def test_what_one_call_can_hold_may_be_too_much_to_judge(facts: ProblemFacts) -> None:
    inputs, outputs = (64 * 512 + 512) * 4, 64 * 512 * 4

    candidate, machine = memory_needed(facts)

    assert candidate >= 3 * (2 * inputs + outputs), "three input sets are held at once, mapped and as tensors"
    assert machine >= candidate + 4 * inputs + 4 * 2 * outputs, "beside the cases and their oracles"


async def test_a_graph_of_other_types_than_the_reference_gives_is_not_searched_by(
    device: Device, tmp_path: Path
) -> None:
    source = HEAD + INPUTS + "def reference(x): return x.exp() if type(x) is torch.Tensor else x.exp().half()\n"
    facts = await device.validate_problem(_problem(tmp_path, source))
    assert facts.graph is None
    assert "output 0 is float32 on the device, and float16 where it is captured" in facts.capture_error
