"""Every way to cheat that is known, as a kernel: each is rejected for the right reason; honest kernels are accepted."""

import json

import pytest
from adversarial import Judge
from cheats import AFTER, FOLDER, KERNELS, SAMPLE, SUITES, Expected

from kernelswarm.hardware.machine.nvml import find_devices
from kernelswarm.schemas import PoolError


def has_gpu() -> bool:
    try:
        return bool(find_devices().accelerators)
    except PoolError:
        return False


MOST_GAIN = 1.34
"""So much faster than an honest kernel like it one may look (docs/judge.md, replayed calls)."""
NEEDS_GPU = pytest.mark.skipif(not has_gpu(), reason="there is no GPU here")


def cases() -> list[object]:
    params = []
    for name, suite in SUITES.items():
        for kernel, expected in suite.expected.items():
            marks: list[pytest.MarkDecorator] = [NEEDS_GPU] if suite.pool == "gpu" else []
            if kernel not in suite.always:
                marks.append(pytest.mark.thorough)
            params.append(pytest.param(name, kernel, expected, id=f"{kernel} on {suite.pool}", marks=marks))
    return params


@pytest.mark.parametrize(("suite", "kernel", "expected"), cases())
def test_is_judged_for_what_it_is(judge: Judge, suite: str, kernel: str, expected: Expected) -> None:
    for evaluation in judge.of(suite, kernel):
        if expected.needs and expected.needs not in evaluation["isolation"]:
            pytest.skip(f"this machine permits no {expected.needs}: {evaluation['isolation']}")
        assert evaluation["verdict"] in expected.verdicts, f"{evaluation['verdict']}: {evaluation['reason']}"
        assert evaluation["correct"] is (evaluation["verdict"] == "correct")
        if evaluation["correct"]:
            assert evaluation["reason"] is None and evaluation["speedup"] is not None
            assert expected.may_win or not evaluation["win"], evaluation["speedup"]
            for honest in judge.of(suite, expected.like):
                assert evaluation["speedup"]["low"] <= MOST_GAIN * honest["speedup"]["high"], honest["speedup"]
        else:
            assert (
                evaluation["reason"]
                and not evaluation["win"]
                and evaluation["speedup"] is None
                and evaluation["times_ms"] == {}
            )
            assert expected.says in evaluation["reason"] + json.dumps(evaluation["evidence"])


@pytest.mark.parametrize(
    "attack",
    [
        pytest.param(attack, marks=() if {attack, after} <= SAMPLE else pytest.mark.thorough)
        for attack, after in AFTER.items()
    ],
)
def test_what_comes_after_an_attack_is_judged_correctly(judge: Judge, attack: str) -> None:
    suite, order = SUITES["rows"], judge.order("rows")
    at = order.index(attack) + 1
    assert order[at] == AFTER[attack]
    evaluation = judge.evaluations("rows")[at]
    assert evaluation["verdict"] in suite.expected[AFTER[attack]].verdicts, (
        f"{evaluation['verdict']}: {evaluation['reason']}"
    )


def test_every_kernel_is_in_the_table() -> None:
    listed = {suite.path(kernel) for suite in SUITES.values() for kernel in suite.expected}
    assert listed == set(KERNELS.glob("*/*.py")) - {KERNELS / "cpu" / "constant.py"}


def test_every_kernel_is_described() -> None:
    text = (FOLDER / "README.md").read_text()
    names = {name for suite in SUITES.values() for name in suite.expected}
    assert not [name for name in sorted(names) if f"`{name}`" not in text and f"`cuda/{name}`" not in text]
