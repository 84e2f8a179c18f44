"""What a network's results may be off by, each by itself, and what that leaves to its convolutions and norms."""

import graphs
import pytest
import torch
from msgspec import structs
from torch import nn

from kernelswarm.codegen.backends import CODEGEN_BACKENDS
from kernelswarm.codegen.ir.error_bounds import ErrorBounds
from kernelswarm.codegen.triton.candidate import generate_triton
from kernelswarm.codegen.triton.tunables import gpu_settings
from kernelswarm.hardware.capture.capture import capture

EXACT, IN_TF32 = 2e-6, 5e-3
STATISTICS = ("running_mean", "running_var")
FIRST_EXACT = {"output_0": IN_TF32, **{f"1.{s}": EXACT for s in STATISTICS}, **{f"4.{s}": IN_TF32 for s in STATISTICS}}
"""What validation measures on a GPU: cuDNN runs a first convolution of three channels in fp32."""


class Network(nn.Sequential):
    def __init__(self):
        super().__init__(
            nn.Conv2d(3, 8, 3),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.Conv2d(8, 8, 3),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.Conv2d(8, 8, 3),
        )


@pytest.fixture(scope="module")
def facts():
    with torch.no_grad():
        graph = capture(Network(), [torch.randn(2, 3, 16, 16)])
    return structs.replace(graphs.facts(graph), error_bound=EXACT, error_bounds=FIRST_EXACT)


def convolutions(graph):
    return [node.name for node in graph.nodes if node.target == "aten.convolution.default"]


def test_a_value_is_as_exact_as_the_results_behind_it(facts):
    by_value = ErrorBounds.of_problem(facts).by_value(facts.graph)
    assert [by_value[name] for name in convolutions(facts.graph)] == [EXACT, IN_TF32, IN_TF32]


def test_a_running_variance_that_hides_errors_makes_no_convolution_exact(facts):
    hidden = structs.replace(facts, error_bounds={**FIRST_EXACT, "4.running_var": 3e-6})
    by_value = ErrorBounds.of_problem(hidden).by_value(facts.graph)
    assert [by_value[name] for name in convolutions(facts.graph)] == [EXACT, IN_TF32, IN_TF32]
    (first, second) = (by_value[n.name] for n in facts.graph.nodes if n.target == "aten.var_mean.correction")
    assert (first, second) == (EXACT, 3e-6)


def test_finished_files_are_held_against_what_outputs_allow(facts):
    assert facts.output_bound == IN_TF32
    assert structs.replace(facts, error_bounds={}).output_bound == EXACT
    assert structs.replace(facts, error_bound=None, error_bounds={}).output_bound == 0


def test_where_switches_permit_tf32_no_convolution_is_exact(facts):
    permitted = structs.replace(facts, tf32_convolutions=True, error_bounds=dict.fromkeys(FIRST_EXACT, EXACT))
    bounds = ErrorBounds.of_problem(permitted)
    tunables = CODEGEN_BACKENDS["triton"].tunables(facts.graph, graphs.HARDWARE, bounds)
    assert "channels_last" in tunables and "tf32" in tunables["precision"] and True in tunables["tuned"]
    assert "shifted" not in tunables["variance"]
    settings = gpu_settings({"own_convolutions": False, "channels_last": True})
    (plan,) = generate_triton(permitted, facts.graph, settings).plans
    assert [node.target for node in plan.externs].count("ks.convolution_last") == 3


def test_older_facts_have_one_bound_for_all(facts):
    bounds = ErrorBounds.of_problem(structs.replace(facts, error_bounds={}))
    assert bounds == ErrorBounds(EXACT)
    assert bounds.by_value(facts.graph) == {}


def test_a_result_without_a_bound_has_the_least(facts):
    bounds = ErrorBounds(EXACT, {"output_0": IN_TF32})
    assert {bounds.by_value(facts.graph)[name] for name in convolutions(facts.graph)[:2]} == {EXACT}


@pytest.mark.parametrize("by_result", [FIRST_EXACT, {}], ids=["each its own", "one for all"])
def test_convolutions_are_offered_what_the_least_exact_of_them_may_have(facts, by_result):
    bounds = ErrorBounds(EXACT, by_result)
    tunables = CODEGEN_BACKENDS["triton"].tunables(facts.graph, graphs.HARDWARE, bounds)
    assert ("channels_last" in tunables) == bool(by_result)
    assert (True in tunables["tuned"]) == ("tf32" in tunables["precision"]) == bool(by_result)
    assert ("shifted" in tunables["variance"]) == bool(by_result)


@pytest.mark.parametrize("channels_last", [True, False])
def test_an_exact_convolution_stays_the_reference_s(facts, channels_last):
    settings = gpu_settings({"own_convolutions": False, "channels_last": channels_last, "variance": "shifted"})
    candidate = generate_triton(facts, facts.graph, settings)
    calls = [node for plan in candidate.plans for node in plan.externs]
    measured = [node.args[9] for node in calls if node.target == "aten._convolution.default"]
    last = [node for node in calls if node.target == "ks.convolution_last"]
    assert len(measured) + len(last) == 3
    assert measured[0] is not True and "cudnn.benchmark" in measured[0].value
    assert len(last) == (2 if channels_last else 0)
    assert "torch.backends.cudnn.benchmark" in candidate.source


def test_own_convolutions_are_of_those_that_may_be_less_exact(facts):
    candidate = generate_triton(facts, facts.graph, gpu_settings({"precision": "tf32"}))
    (plan,) = candidate.plans
    assert sum(node.target == "aten._convolution.default" for node in plan.externs) == 1
    assert sum(node.target == "ks.convolution" for node in plan.externs) == 2


def test_the_mean_before_an_exact_variance_is_taken_first(facts):
    (plan,) = generate_triton(facts, facts.graph, gpu_settings({"variance": "shifted"})).plans
    variances = {node.name for node in plan.graph.nodes if node.name.endswith("_shift")}
    assert len(variances) == 1


def test_where_all_is_exact_nothing_is_told_apart(facts):
    bounds = dict.fromkeys(FIRST_EXACT, EXACT)
    settings = gpu_settings({"precision": "ieee", "tuned": False})
    sources = {
        generate_triton(structs.replace(facts, error_bounds=by), facts.graph, settings).source for by in (bounds, {})
    }
    assert len(sources) == 1
