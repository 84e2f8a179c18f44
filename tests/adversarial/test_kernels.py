"""Every way to cheat that is known, as a kernel: each is rejected for the right reason; honest kernels are accepted."""

import json

import pytest
from adversarial import AFTER, KERNELS, SUITES, Judge
from expected import Expected

from kernelswarm.hardware.nvml import find_devices
from kernelswarm.schemas import PoolError


def has_gpu() -> bool:
    try:
        return bool(find_devices().accelerators)
    except PoolError:
        return False


NEEDS_GPU = pytest.mark.skipif(not has_gpu(), reason="there is no GPU here")


def cases() -> list[object]:
    found = []
    for suite, asked in SUITES.items():
        for kernel, expected in asked.expected.items():
            marks: list[pytest.MarkDecorator] = [NEEDS_GPU] if asked.pool == "gpu" else []
            if kernel not in asked.always:
                marks.append(pytest.mark.thorough)
            found.append(pytest.param(suite, kernel, expected, id=f"{kernel} on {asked.pool}", marks=marks))
    return found


@pytest.mark.parametrize(("suite", "kernel", "expected"), cases())
def test_is_judged_for_what_it_is(judge: Judge, suite: str, kernel: str, expected: Expected) -> None:
    for told in judge.of(suite, kernel):
        if expected.needs and expected.needs not in told["isolation"]:
            pytest.skip(f"this machine permits no {expected.needs}: {told['isolation']}")
        assert told["verdict"] in expected.verdicts, f"{told['verdict']}: {told['reason']}"
        assert told["correct"] is (told["verdict"] == "correct")
        if told["correct"]:
            assert told["reason"] is None and told["speedup"] is not None
            assert expected.may_win or not told["win"], told["speedup"]
        else:
            assert told["reason"] and not told["win"] and told["speedup"] is None and told["times_ms"] == {}
            assert expected.says in told["reason"] + json.dumps(told["evidence"])


@pytest.mark.parametrize("attack", AFTER)
def test_what_comes_after_an_attack_is_judged_correctly(judge: Judge, attack: str) -> None:
    asked, order = SUITES["rows"], judge.order("rows")
    at = order.index(attack) + 1
    assert order[at] == AFTER[attack]
    told = judge.told("rows")[at]
    assert told["verdict"] in asked.expected[AFTER[attack]].verdicts, f"{told['verdict']}: {told['reason']}"


def test_every_kernel_is_in_the_table() -> None:
    listed = {asked.path(kernel) for asked in SUITES.values() for kernel in asked.expected}
    assert listed == set(KERNELS.glob("*/*.py")) - {KERNELS / "cpu" / "constant.py"}
