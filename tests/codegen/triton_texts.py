"""Kernels that the Triton backend makes of a graph, by name."""

from kernelswarm.codegen.triton.candidate import gpu_plan
from kernelswarm.codegen.triton.source import triton_library
from kernelswarm.codegen.triton.tunables import gpu_settings


def library(source_graph, **config):
    settings = gpu_settings(config)
    return triton_library(gpu_plan(source_graph, settings), settings)


def texts(source_graph, **config):
    return {k.launch.kernel: k.text for k in library(source_graph, **config).everything()}


def launches(source_graph, **config):
    return {k.launch.kernel: k.launch for k in library(source_graph, **config).everything()}
