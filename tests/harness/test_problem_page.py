"""Every example of docs/problems.md can be searched, and each refusal of docs/refused-problems.md has its sentence."""

import re
from pathlib import Path
from typing import Any

import pytest

import kernelswarm
from kernelswarm.hardware.device import Device
from kernelswarm.hardware.sources.problem_files import load_problem
from kernelswarm.schemas import ProblemError, ProblemFormat
from kernelswarm.sessions.outside.brief import agent_brief

assert kernelswarm.__file__ is not None
DOCS = Path(kernelswarm.__file__).parent / "docs"
PAGE = (DOCS / "problems.md").read_text()
EXAMPLES = dict(re.findall(r"^```python\n# (\S+\.py)\n(.*?)^```", PAGE, re.M | re.S))
PROBLEMS = sorted(name for name in EXAMPLES if "/" not in name)

HEAD = "import torch\n"
SHAPES = "shapes = {'main': dict(n=64)}\n"
INPUTS = "def inputs(generator, n): return [torch.randn(n, generator=generator)]\n"
REFERENCE = "def reference(x): return x * 2 + 1\n"
REFUSED = {
    "is empty, or has no reference": "",
    "has a module that is not called Model": "from torch import nn\nclass Net(nn.Module): ...\ndef get_inputs(): ...\n",
    "lacks a part of its format": HEAD + SHAPES + REFERENCE,
    "is not Python": "def reference(:",
    "imports what is not there": "import nosuch\n" + HEAD + SHAPES + INPUTS + REFERENCE,
    "imports a broken neighbour": "import broken\n" + HEAD + SHAPES + INPUTS + REFERENCE,
    "raises when it is imported": HEAD + "raise ValueError('no weights')\n" + SHAPES + INPUTS + REFERENCE,
    "has a reference that raises": HEAD + SHAPES + INPUTS + "def reference(x):\n    return x @ torch.ones(3)\n",
    "has inputs that raise": HEAD + SHAPES + "def inputs(generator, n):\n    raise ValueError('no data')\n" + REFERENCE,
    "returns inputs of another kind": HEAD + SHAPES + "def inputs(generator, n): return {'y': 1}\n" + REFERENCE,
    "has an input that is an object": HEAD + SHAPES + "def inputs(generator, n): return [lambda: n]\n" + REFERENCE,
    "has no shapes": HEAD + "shapes = {}\n" + INPUTS + REFERENCE,
    "draws other inputs each time": HEAD
    + SHAPES
    + "import os\n"
    + "def inputs(generator, n): return [torch.frombuffer(bytearray(os.urandom(n)), dtype=torch.uint8)]\n"
    + REFERENCE,
    "has a random reference": HEAD + SHAPES + INPUTS + "def reference(x): return x + torch.rand_like(x)\n",
    "has dropout in training mode": "import torch\ndef get_inputs(): return [torch.randn(32, 8)]\n"
    "class Model(torch.nn.Dropout): pass\n",
    "returns nothing": HEAD + SHAPES + INPUTS + "def reference(x): x * 2\n",
    "returns an object": HEAD + SHAPES + INPUTS + "def reference(x): return str(x)\n",
    "asks for a GPU on a CPU pool": HEAD + SHAPES + INPUTS + "def reference(x): return x.cuda() * 2\n",
    "has a reference that a constant answers": HEAD + SHAPES + INPUTS + "def reference(x): return x * 0\n",
    "has a tolerance that is no number": HEAD + SHAPES + INPUTS + REFERENCE + "tolerance = 'loose'\n",
    "has a `backward` that is no boolean": HEAD + SHAPES + INPUTS + REFERENCE + "backward = 'yes'\n",
    "has timed shapes that are none": HEAD + SHAPES + INPUTS + REFERENCE + "timed = {'huge': 1}\n",
    "has a weight that is none": HEAD + SHAPES + INPUTS + REFERENCE + "timed = {'main': 0}\n",
    "is too large for the memory": HEAD + SHAPES + INPUTS + "def reference(x): return x + torch.ones(1 << 42)\n",
}


def sentences() -> dict[str, str]:
    """The page's refusals: what the file does, and the sentence on one line."""
    block = (DOCS / "refused-problems.md").read_text().split("```text\n")[1].split("```")[0]
    parts = re.findall(r"^A file that (.*)\n((?: {4}.*\n)+)", block, re.M)
    return {what: " ".join(line.strip() for line in text.splitlines()) for what, text in parts}


def test_the_page_has_an_example_of_each_thing_that_it_names() -> None:
    assert len(PROBLEMS) >= 12
    for topic in (
        "tolerance =",
        "timed =",
        "backward =",
        "register_buffer",
        "from blocks.gates",
        "None,",
        "torch.float32",
        "rfft",
    ):
        assert any(topic in EXAMPLES[name] for name in PROBLEMS), topic


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize("name", PROBLEMS)
async def test_an_example_can_be_searched(name: str, tmp_path: Path, device: Device) -> None:
    for file, text in EXAMPLES.items():
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text(text)
    problem = load_problem(tmp_path / name)
    facts = await device.validate_problem(problem)
    if problem.format is ProblemFormat.function:
        assert len(facts.shapes) > 1, "the page asks for two shapes"
    assert all(shape.outputs for shape in facts.shapes)


def test_every_refusal_of_the_page_is_tried() -> None:
    assert sentences().keys() == REFUSED.keys()


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize("what", REFUSED)
async def test_a_refusal_costs_the_sentence_of_the_page(what: str, tmp_path: Path, device: Device) -> None:
    (tmp_path / "broken.py").write_text("def f(:")
    path = tmp_path / "operator_of_mine.py"
    path.write_text(REFUSED[what])
    with pytest.raises(ProblemError) as caught:
        await device.validate_problem(load_problem(path))
    pattern = re.escape(sentences()[what]).replace("…", ".*")
    assert re.fullmatch(pattern, str(caught.value)), str(caught.value)


@pytest.mark.asyncio(loop_scope="session")
async def test_the_form_that_agents_are_shown_is_a_problem_and_has_every_name(tmp_path: Path, device: Device) -> None:
    (example,) = [block for block in re.findall(r"```python\n(.*?)```", agent_brief(), re.S) if "shapes =" in block]
    path = tmp_path / "shown.py"
    path.write_text(example.replace("4096", "64"))  # of its own size it takes ten seconds, and shows no more
    validated = await device.validate_problem(load_problem(path))
    assert len(validated.shapes) == 2 and [shape.name for shape in validated.timed] == ["main"]
    table = PAGE.split("| name | meaning |")[1].split("\n\n")[0]
    shown = agent_brief().split("| name |")[1].split("\n\n")[0]
    names, shown_names = (set(re.findall(r"^\| `(\w+)", text, re.M)) for text in (table, shown))
    assert shown_names == names - {"published_tolerance"}


def test_lines_are_short() -> None:
    for name in ("problems.md", "refused-problems.md", "model-authors.md"):
        page: Any = (DOCS / name).read_text()
        assert max(map(len, page.splitlines())) <= 100
