"""Drafting grows linearly with the graph, also where every operator reads all before it.

Counted are calls of functions, which are the same on every machine; ``benchmarks/drafting.py`` prints the seconds.
"""

import cProfile

import graphs
import pytest
import torch
from operators_over_time import doubled

from kernelswarm.codegen.backends import CODEGEN_BACKENDS
from kernelswarm.codegen.lowering.normal import normalise
from kernelswarm.codegen.lowering.regions import Fusion, partition
from kernelswarm.hardware.capture.capture import capture


def drafted(language, source_graph):
    """The source of the default and how many calls of functions it took, the choice of tunables included."""
    backend = CODEGEN_BACKENDS[language]
    with cProfile.Profile() as profile:
        backend.tunables(source_graph, graphs.HARDWARE)
        source = backend.source(graphs.facts(source_graph), source_graph, {}, graphs.HARDWARE)
    return source, sum(entry.callcount for entry in profile.getstats())


@pytest.mark.parametrize("language", CODEGEN_BACKENDS)
def test_seven_hundred_operators_are_drafted_with_four_times_the_calls_of_a_quarter(language):
    assert sum(node.op == "call" for node in graphs.dense(100).nodes) == 700
    small, few = drafted(language, graphs.dense(25))
    large, many = drafted(language, graphs.dense(100))
    assert many < 4.5 * few
    assert len(large) < 4.5 * len(small)


def test_a_concatenation_of_concatenations_is_one_choice_and_is_stored_when_it_grows_long():
    plan = partition(normalise(graphs.dense(40)), Fusion())
    choices = [n for k in plan.kernels for root in k.roots() for n in root.walk() if n.op == "piecewise"]
    assert not [n for n in choices if any(below.op == "piecewise" for below in n.args)]
    assert max(len(n.args) for n in choices) == 17


@pytest.mark.parametrize("language", ["cpp", pytest.param("triton", marks=pytest.mark.thorough)])
def test_a_scan_that_doubles_is_stored_before_its_alternatives_multiply(language):
    """Every round chooses in each of three operands, so what is computed in place grows by a factor of three."""

    def scan(length):
        inputs = [torch.randn(2, length, 16), torch.randn(2, length, 16)]
        return capture(lambda gate, x: doubled(gate, x, length), inputs)

    _, few = drafted(language, scan(256))
    source, many = drafted(language, scan(1024))
    assert many < 2 * few, "ten rounds instead of eight"
    assert len(source) < 300_000
