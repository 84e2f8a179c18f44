"""State is part of the answer: what a call changes is found, put back, and compared after each of several calls."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from kernelswarm.hardware.device import Device
from kernelswarm.hardware.sources.problem_files import load_problem
from kernelswarm.schemas import Problem, ProblemError, StateFact, Verdict, VerifyReport

pytestmark = pytest.mark.asyncio(loop_scope="session")


def module(init: str, forward: str, inputs: str = "torch.randn(16, 24)", before: str = "") -> str:
    body = "\n".join(f"        {line}" for line in forward.split("\n"))
    return (
        f"import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n{before}\n"
        f"class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n        {init}\n"
        f"    def forward(self, x, *more):\n{body}\n"
        f"def get_inputs(): return [{inputs}]\n"
    )


def function(reference: str, inputs: str) -> str:
    body = "\n".join(f"    {line}" for line in reference.split("\n"))
    return (
        f"import torch\nshapes = {{'main': dict(n=700), 'odd': dict(n=33)}}\n"
        f"def inputs(generator, n):\n    draw = lambda: torch.randn(n, generator=generator)\n    return {inputs}\n"
        f"def reference{body.lstrip()}\n"
    )


AVERAGE = module(
    "self.register_buffer('mean', torch.zeros(24)); self.register_buffer('scale', torch.ones(24), persistent=False)",
    "self.mean.mul_(0.9).add_(x.mean(0), alpha=0.1)\nreturn (x - self.mean) * self.scale",
)
COUNTER = module("self.steps = 0", "self.steps += 1\nreturn x * 2 / self.steps")
CACHE = module(
    "self.register_buffer('cache', torch.zeros(16, 8, 24)); self.position = 0",
    "self.cache[:, self.position] = x\nself.position += 1\nkeys = self.cache[:, : self.position]\n"
    "weights = torch.softmax(torch.einsum('bd,bnd->bn', x, keys), -1)\n"
    "return torch.einsum('bn,bnd->bd', weights, keys)",
)
ALIAS = module("self.register_buffer('sum', torch.zeros(16, 24))", "self.sum.mul_(0.5).add_(x)\nreturn self.sum")
CODEBOOK = module(
    "self.register_buffer('codes', torch.randn(24, 10)); self.register_buffer('sizes', torch.ones(10))",
    "near = (x @ self.codes - self.codes.pow(2).sum(0) / 2).argmax(1)\nhot = F.one_hot(near, 10).to(x.dtype)\n"
    "answer = self.codes.t()[near]\nself.sizes.data.mul_(0.9).add_(hot.sum(0), alpha=0.1)\n"
    "self.codes.data.mul_(0.9).add_(x.t() @ hot / self.sizes, alpha=0.1)\nreturn answer, near",
)
BATCHNORM = module("self.norm = nn.BatchNorm1d(24)", "return self.norm(x)")
STEP = function("(p, g, m):\nm.mul_(0.9).add_(g, alpha=0.1)\np.add_(m, alpha=-0.01)", "[draw(), draw(), draw()]")

STATEFUL = {
    "average": (AVERAGE, {"mean": "buffer"}),
    "batchnorm": (
        BATCHNORM,
        {"norm.running_mean": "buffer", "norm.running_var": "buffer", "norm.num_batches_tracked": "buffer"},
    ),
    "batchnorm, both passes": (
        "backward = True\n" + BATCHNORM,
        {"norm.running_mean": "buffer", "norm.running_var": "buffer", "norm.num_batches_tracked": "buffer"},
    ),
    "instance norm": (
        module(
            "self.norm = nn.InstanceNorm1d(6, track_running_stats=True)", "return self.norm(x)", "torch.randn(4, 6, 9)"
        ),
        {"norm.running_mean": "buffer", "norm.running_var": "buffer"},
    ),
    "spectral norm": (
        module("self.f = nn.utils.parametrizations.spectral_norm(nn.Linear(24, 8))", "return self.f(x)"),
        {"f.parametrizations.weight.0._u": "buffer", "f.parametrizations.weight.0._v": "buffer"},
    ),
    "spectral norm by a hook": (
        module("self.f = nn.utils.spectral_norm(nn.Linear(24, 8))", "return self.f(x)"),
        {"f.weight_u": "buffer", "f.weight_v": "buffer", "f.weight": "attribute"},
    ),
    "counter": (COUNTER, {"steps": "attribute"}),
    "cache": (CACHE, {"cache": "buffer", "position": "attribute"}),
    "codebook": (CODEBOOK, {"codes": "buffer", "sizes": "buffer"}),
    "answer that is state": (ALIAS, {"sum": "buffer"}),
    "list that grows": (
        module("self.seen = []", "self.seen.append(x.mean(0))\nreturn x - torch.stack(self.seen).mean(0)"),
        {"seen": "attribute"},
    ),
    "none at first": (
        module("self.last = None", "last, self.last = self.last, x * 2\nreturn x if last is None else x + last"),
        {"last": "attribute"},
    ),
    "parameter": (
        module(
            "self.w = nn.Parameter(torch.ones(24))", "y = x * self.w\nself.w.data.sub_(y.mean(0), alpha=0.1)\nreturn y"
        ),
        {"w": "parameter"},
    ),
    "no answer but state": (
        module("self.register_buffer('mean', torch.zeros(24))", "self.mean.lerp_(x.mean(0), 0.1)"),
        {"mean": "buffer"},
    ),
    "input of a module": (
        module("pass", "more[0].add_(x)\nreturn more[0] * 2", "torch.randn(16, 24), torch.randn(16, 24)"),
        {"more": "input"},
    ),
    "step": (STEP, {"p": "input", "m": "input"}),
    "step on a list": (
        function("(ps, g):\nfor p in ps: p.sub_(g)\nreturn ps[0]", "[[draw(), draw()], draw()]"),
        {"ps": "input"},
    ),
}
STATELESS = {
    "gru": module("self.f = nn.GRU(24, 8)", "return self.f(x)", "torch.randn(5, 3, 24)"),
    "weight norm": module("self.f = nn.utils.weight_norm(nn.Linear(24, 8))", "return self.f(x)"),
    "batchnorm in use": BATCHNORM.replace("nn.BatchNorm1d(24)", "nn.BatchNorm1d(24).eval()"),
}

Verify = Callable[[str, str], Awaitable[VerifyReport]]


def own(source: str) -> str:
    """The reference itself as a candidate."""
    return source + ("\nclass ModelNew(Model): pass\n" if "class Model(" in source else "\nkernel = reference\n")


def problem_of(folder: Path, source: str) -> Problem:
    path = folder / "mine.py"
    path.write_text(source)
    return load_problem(path)


@pytest.fixture
def verify(device: Device, tmp_path: Path) -> Verify:
    async def judge(problem: str, candidate: str) -> VerifyReport:
        report, _ = await device.compile(candidate, "cpp")
        return await device.verify(problem_of(tmp_path, problem), candidate, report)

    return judge


@pytest.mark.parametrize("name", STATEFUL)
async def test_what_a_call_changes_is_found_and_an_honest_candidate_is_right(
    device: Device, verify: Verify, tmp_path: Path, name: str
) -> None:
    source, state = STATEFUL[name]

    facts = await device.validate_problem(problem_of(tmp_path, source))
    report = await verify(source, own(source))

    assert set(facts.state) == {StateFact(name=key, kind=kind) for key, kind in state.items()}
    assert report.verdict is Verdict.correct, report.evidence


@pytest.mark.parametrize("name", STATELESS)
async def test_what_keeps_nothing_has_no_state(device: Device, verify: Verify, tmp_path: Path, name: str) -> None:
    facts = await device.validate_problem(problem_of(tmp_path, STATELESS[name]))
    report = await verify(STATELESS[name], own(STATELESS[name]))

    assert facts.state == ()
    assert report.verdict is Verdict.correct, report.evidence


async def test_every_tensor_of_a_module_has_its_role(device: Device, tmp_path: Path) -> None:
    source = AVERAGE.replace("        self.register", "        self.f = nn.Linear(2, 2, bias=False); self.register", 1)

    facts = await device.validate_problem(problem_of(tmp_path, source))

    assert {name: fact.role for name, fact in facts.parameters.items()} == {
        "mean": "buffer",
        "scale": "buffer_not_persistent",
        "f.weight": "parameter",
    }


REFUSED = {
    "random": (module("self.f = nn.Dropout()", "return self.f(x)"), "output 0 of the reference differs"),
    "random state": (
        module("self.register_buffer('noise', torch.zeros(24))", "self.noise.copy_(torch.rand(24))\nreturn x * 2"),
        "buffer noise, which the reference writes, differs",
    ),
    "kept out of sight": (
        module("self.own = Own()", "self.own.n += 1\nreturn x * 2 + self.own.n", before="class Own: n = 0"),
        "what one call leaves for the next a buffer, or an attribute that is a tensor or a number",
    ),
    "kept in the file": (
        "n = 0\n" + function("(x):\nglobal n\nn += 1\nreturn x * n", "[draw()]"),
        "what one call leaves for the next an input that is written",
    ),
    "without sizes": (
        module("self.f, self.g = nn.LazyLinear(8), nn.LazyLinear(8)", "return self.f(x)"),
        "a lazy layer has none before it is called",
    ),
    "always the input": (
        module("self.register_buffer('n', torch.zeros(()))", "self.n += 1\nreturn x * 1"),
        "input 0 itself passes as the right answer",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_what_cannot_be_judged_is_refused_with_the_reason(device: Device, tmp_path: Path, name: str) -> None:
    source, reason = REFUSED[name]

    with pytest.raises(ProblemError) as refused:
        await device.validate_problem(problem_of(tmp_path, source))

    assert reason in str(refused.value)


def candidate(source: str, *changes: tuple[str, str]) -> str:
    """The reference as ``ModelNew`` or ``kernel``, with text replaced."""
    for old, new in changes:
        assert old in source
        source = source.replace(old, new)
    return own(source)


EMA = "self.mean.mul_(0.9).add_(x.mean(0), alpha=0.1)"
LOCAL = "mean = self.mean * 0.9 + x.mean(0) * 0.1"
WRONG = {
    "left alone": (
        AVERAGE,
        candidate(AVERAGE, (EMA, LOCAL), ("x - self.mean", "x - mean")),
        "buffer mean[",
    ),
    "right once": (
        AVERAGE,
        candidate(
            AVERAGE,
            (
                EMA,
                f"{LOCAL}\n        if not hasattr(self, 'done'): self.mean.copy_(mean)\n        self.done = object()",
            ),
            ("x - self.mean", "x - mean"),
        ),
        "buffer mean[",
    ),
    "another buffer too": (
        AVERAGE,
        candidate(AVERAGE, (EMA, f"{EMA}\n        self.scale.add_(1)"), (" * self.scale", "")),
        "buffer scale is not what it was before the calls",
    ),
    "a tensor of another type": (
        AVERAGE,
        candidate(
            AVERAGE, (EMA, f"{EMA}\n        self.mean = self.mean.double()"), ("x - self.mean", "x - self.mean.float()")
        ),
        "buffer mean is a tensor of float64",
    ),
    "a parameter": (
        AVERAGE,
        candidate(
            AVERAGE, ("self.register_buffer('mean', torch.zeros(24))", "self.mean = nn.Parameter(torch.zeros(24))")
        ),
        "mean is a parameter of ModelNew, and a buffer of Model: use register_buffer",
    ),
    "counted twice": (
        COUNTER,
        candidate(COUNTER, ("+= 1", "+= 2"), ("/ self.steps", "/ (self.steps // 2)")),
        "steps is 2",
    ),
    "not counted": (
        COUNTER,
        candidate(
            COUNTER, ("self.steps = 0", "self.n = 0"), ("self.steps += 1", "self.n += 1"), ("/ self.steps", "/ 1")
        ),
        "attribute steps is None or missing",
    ),
    "no running statistics": (
        BATCHNORM,
        candidate(BATCHNORM, ("self.norm(x)", "F.batch_norm(x, None, None, self.norm.weight, self.norm.bias, True)")),
        "buffer norm.running_mean[",
    ),
    "no weights left": (
        STATELESS["gru"],
        candidate(
            STATELESS["gru"],
            ("return self.f(x)", "y = self.f(x)\n        self.f.bias_hh_l0.data.mul_(1.0000001)\n        return y"),
        ),
        "f.bias_hh_l0 is not what it was when it was loaded",
    ),
    "another value": (STEP, candidate(STEP, ("alpha=-0.01", "alpha=-0.0101")), "input p["),
    "not written": (STEP, candidate(STEP, ("m.mul_(0.9)", "m = m.mul(0.9)")), "input m["),
}


@pytest.mark.parametrize("name", WRONG)
async def test_state_that_is_not_the_references_is_wrong(verify: Verify, name: str) -> None:
    problem, source, says = WRONG[name]

    report = await verify(problem, source)

    assert report.evidence is not None
    assert report.verdict in (Verdict.wrong_state, Verdict.wrong_numbers), report.evidence
    assert says in report.evidence.message


async def test_the_evidence_names_the_call(verify: Verify) -> None:
    """A candidate that is right from the start each time, and does not go on from what it left."""
    report = await verify(AVERAGE, candidate(AVERAGE, (EMA, "self.mean.copy_(x.mean(0) * 0.1)")))

    assert report.verdict is Verdict.wrong_numbers, report.evidence
    assert report.evidence is not None and " after call 2 in a row" in report.evidence.message

    only_state = AVERAGE.replace("(x - self.mean)", "(x - 1)")
    report = await verify(only_state, candidate(only_state, (EMA, "self.mean.copy_(x.mean(0) * 0.1)")))

    assert report.verdict is Verdict.wrong_state, report.evidence
    assert report.evidence is not None and " after call 2 in a row" in report.evidence.message
    assert float(report.evidence.expected) != float(report.evidence.got)


async def test_an_input_that_the_reference_only_reads_stays(verify: Verify) -> None:
    report = await verify(STEP, candidate(STEP, ("m.mul_(0.9)", "g.mul_(2); m.mul_(0.9)")))

    assert report.verdict is Verdict.input_mutated


@pytest.mark.parametrize("source", [AVERAGE, COUNTER, CACHE, ALIAS, STEP, "backward = True\n" + BATCHNORM])
async def test_calls_begin_from_the_start_while_they_are_timed(device: Device, tmp_path: Path, source: str) -> None:
    problem = problem_of(tmp_path, source)
    facts = await device.validate_problem(problem)
    report, _ = await device.compile(own(source), "cpp")

    profiled = await device.profile(problem, facts, own(source), report)

    assert profiled.verdict is Verdict.correct, profiled.evidence
    assert profiled.timing is not None and set(profiled.timing.median_ms) == {"eager", "candidate"}


async def test_state_left_alone_while_it_is_timed_is_wrong(device: Device, tmp_path: Path) -> None:
    source = candidate(
        BATCHNORM,
        ("nn.BatchNorm1d(24)", "nn.BatchNorm1d(24); self.n = 0"),
        (
            "return self.norm(x)",
            # Verifying makes some twenty calls in a process, and timing more even where a batch is a single call.
            "self.n += 1\n        n = self.norm\n        if self.n < 28: return n(x)\n"
            "        return F.batch_norm(x, None, None, n.weight, n.bias, True)",
        ),
    )
    problem = problem_of(tmp_path, BATCHNORM)
    facts = await device.validate_problem(problem)
    report, _ = await device.compile(source, "cpp")

    verified = await device.verify(problem, source, report)
    profiled = await device.profile(problem, facts, source, report)

    assert verified.verdict is Verdict.correct
    assert profiled.verdict is Verdict.wrong_state
    assert profiled.evidence is not None and "timed" in profiled.evidence.message


async def test_another_reference_process_knows_the_same_state(device: Device, tmp_path: Path) -> None:
    problem = problem_of(tmp_path, CACHE)
    report, _ = await device.compile(own(CACHE), "cpp")

    before = await device.verify(problem, own(CACHE), report)
    cases = device._cases[problem.sha256]
    assert cases._worker is not None
    await cases._worker.kill()
    after = await device.verify(problem, own(CACHE), report)

    assert before.verdict is after.verdict is Verdict.correct
    assert [case.seed for case in before.cases] == [case.seed for case in after.cases]
