"""Drafting grows linearly with the graph, also where every operator reads all before it."""

import time

import graphs
import pytest
import torch
from operators_over_time import doubled

from kernelswarm.codegen.backends import CODEGEN_BACKENDS
from kernelswarm.codegen.lowering.normal import normalise
from kernelswarm.codegen.lowering.regions import Fusion, partition
from kernelswarm.hardware.capture.capture import capture

LIMIT_S = 2.0
"""CPU seconds for 700 operators on one core."""


def drafted(language, layers):
    source_graph = graphs.dense(layers)
    start = time.thread_time()
    CODEGEN_BACKENDS[language].tunables(source_graph, graphs.HARDWARE)
    source = CODEGEN_BACKENDS[language].source(graphs.facts(source_graph), source_graph, {}, graphs.HARDWARE)
    return source, time.thread_time() - start


@pytest.mark.parametrize("language", CODEGEN_BACKENDS)
def test_seven_hundred_operators_are_drafted_in_two_seconds(language):
    assert sum(node.op == "call" for node in graphs.dense(100).nodes) == 700
    small, _ = drafted(language, 25)
    large, seconds = drafted(language, 100)
    assert seconds < LIMIT_S
    assert len(large) < 4.5 * len(small)


def test_a_concatenation_of_concatenations_is_one_choice_and_is_stored_when_it_grows_long():
    plan = partition(normalise(graphs.dense(40)), Fusion())
    choices = [n for k in plan.kernels for root in k.roots() for n in root.walk() if n.op == "piecewise"]
    assert not [n for n in choices if any(below.op == "piecewise" for below in n.args)]
    assert max(len(n.args) for n in choices) == 17


@pytest.mark.parametrize("language", CODEGEN_BACKENDS)
def test_a_scan_that_doubles_is_stored_before_its_alternatives_multiply(language):
    """Every round chooses in each of three operands, so what is computed in place grows by a factor of three."""
    inputs = [torch.randn(2, 1024, 16), torch.randn(2, 1024, 16)]
    rounds = capture(lambda gate, x: doubled(gate, x, 1024), inputs)
    start = time.thread_time()
    source = CODEGEN_BACKENDS[language].source(graphs.facts(rounds), rounds, {}, graphs.HARDWARE)
    assert time.thread_time() - start < 2 * LIMIT_S and len(source) < 300_000
