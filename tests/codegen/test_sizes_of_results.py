"""Sizes that only an operator's result tells: what is made of such a size comes after that operator."""

import torch

from kernelswarm.codegen.cpp.candidate import plan_of
from kernelswarm.codegen.ir.tunables import settings
from kernelswarm.codegen.triton.candidate import gpu_plan
from kernelswarm.codegen.triton.tunables import GpuSettings
from kernelswarm.hardware.capture.capture import capture


class Filled(torch.nn.Module):
    def forward(self, x, mask):
        chosen = x[:, mask]
        return torch.full((chosen.shape[1], 3), 2.0, dtype=x.dtype), torch.matmul(chosen.t(), chosen)


class Compacted(torch.nn.Module):
    def forward(self, x):
        chosen = x[x > 0]
        return x * chosen.shape[0], chosen * 2


class Shaped(torch.nn.Module):
    def forward(self, x):
        chosen = x[x > 0]
        return chosen.reshape(chosen.shape[0], 1) * 2


def test_a_compaction_whose_size_others_ask_for_is_left_to_the_library():
    for module, is_left in ((Compacted(), True), (Shaped(), False)):
        graph = capture(module, [torch.randn(24)])
        index = next(node for node in graph.nodes if node.target == "aten.index.Tensor")
        plan = plan_of(graph, settings({}))
        assert plan.is_extern(plan.nodes[index.name]) is is_left


def test_a_fill_waits_for_the_operator_that_tells_its_size():
    graph = capture(Filled(), [torch.randn(4, 6), torch.tensor([True, False, True, True, False, True])])
    full = next(node.name for node in graph.nodes if node.target == "aten.full.default")
    index = next(node.name for node in graph.nodes if node.target == "aten.index.Tensor")
    for plan in (gpu_plan(graph, GpuSettings()), plan_of(graph, settings({}))):
        kernel = plan.kernel_of(full)
        assert kernel is not None
        assert plan.is_extern(plan.nodes[index])
        assert kernel.rank >= plan.rank[index] > 0
