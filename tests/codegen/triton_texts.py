"""Kernels that the Triton backend makes of a graph, by name, and its first drafts."""

import graphs
from msgspec import structs

from kernelswarm.codegen import Generator, Proposal
from kernelswarm.codegen.triton.candidate import gpu_plan
from kernelswarm.codegen.triton.source import triton_library
from kernelswarm.codegen.triton.tunables import gpu_settings
from kernelswarm.schemas import Intent, MemoryOperator, NodePlanned, sha256


def library(source_graph, **config):
    settings = gpu_settings(config)
    return triton_library(gpu_plan(source_graph, settings), settings)


def texts(source_graph, **config):
    return {k.launch.kernel: k.text for k in library(source_graph, **config).everything()}


def launches(source_graph, **config):
    return {k.launch.kernel: k.launch for k in library(source_graph, **config).everything()}


def drafts(source_graph, count):
    """The first proposals of a session, all different; its reference runs convolutions in TF32."""
    facts = structs.replace(graphs.facts(source_graph), error_bound=5e-3)
    plan = NodePlanned(parent="", intent=Intent.draft, memory=MemoryOperator.clean_slate)
    proposals, sources = [], set()
    for _ in range(count):
        proposal = Generator().propose(
            facts,
            graphs.HARDWARE,
            plan,
            None,
            [p.config for p in proposals],
            language="triton",
            tried_sources=sources,
        )
        assert isinstance(proposal, Proposal)
        assert sha256(proposal.source) not in sources
        sources.add(sha256(proposal.source))
        proposals.append(proposal)
    return proposals
