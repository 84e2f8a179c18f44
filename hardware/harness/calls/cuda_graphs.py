"""CUDA graphs: launches that are recorded once and replayed by the device, without the code that launched them.

What this module uses was bound before any candidate is imported. Source: CUDA driver API, section "Graph Management".
"""

import ctypes
from collections.abc import Callable
from typing import Any, Protocol

import torch

from ..tensors.device_memory import cuda_driver

Body = Callable[[], list[Any]]

_Graph, _recording = torch.cuda.CUDAGraph, torch.cuda.graph
_replay = torch.cuda.CUDAGraph.replay
_pool_handle = torch.cuda.graph_pool_handle
_Event = torch.cuda.Event
_record, _elapsed_time = torch.cuda.Event.record, torch.cuda.Event.elapsed_time
_synchronize = torch.cuda.synchronize
_c_void_p, _c_size_t, _c_int, _byref = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.byref

_ON_THE_DEVICE = {0: "kernel", 1: "memcpy", 2: "memset", 5: "empty", 10: "allocation", 11: "free"}
"""Kinds of a graph's nodes, by ``CUgraphNodeType``."""
_ELSEWHERE = {3: "a function on the processor", 4: "another graph", 6: "waiting for an event", 7: "an event"}


class CannotRecord(Exception):
    """Why calls cannot be replayed by the device alone; a clause."""


class Recording(Protocol):
    """Recorded work."""

    outputs: list[Any]
    """What recording it returned: tensors that each replay writes again."""

    def replay(self) -> None:
        """Queue it."""


class Recorder(Protocol):
    """Records work and times its replays."""

    def record(self, body: Body) -> Recording:
        """Record what ``body`` launches.

        Raises:
            CannotRecord: that is impossible.
        """

    def elapsed_ns(self, recording: Recording, times: int, before: Recording | None = None) -> int:
        """What so many replays take; waits for them. ``before`` each of them another one is replayed, uncounted."""


class CudaRecording:
    """One graph."""

    def __init__(self, graph: Any, outputs: list[Any]) -> None:
        self._graph = graph
        self.outputs = outputs

    def replay(self) -> None:
        """Queue it on the current stream."""
        _replay(self._graph)


class CudaRecorder:
    """On one device of NVIDIA's."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._pool = _pool_handle()
        """Of all recordings: none is replayed beside another one, so they may have the same memory for what they pass
        on from kernel to kernel."""

    def record(self, body: Body) -> CudaRecording:
        """Record on a stream of its own. What ``body`` raises is why it cannot be recorded."""
        graph = _Graph(keep_graph=True)
        outputs: list[Any] = []
        try:
            with _recording(graph, pool=self._pool):
                outputs = body()
            _refuse_other_nodes(graph.raw_cuda_graph())
            graph.instantiate()
            # The first replay brings it to the device.
            _replay(graph)
            _synchronize(self._device)
        except CannotRecord:
            raise
        except Exception as error:  # noqa: BLE001 - whatever a call raises while it is recorded is the reason
            raise CannotRecord(f"{type(error).__name__}: {error}".splitlines()[0][:300]) from None
        return CudaRecording(graph, outputs)

    def elapsed_ns(self, recording: Recording, times: int, before: Recording | None = None) -> int:
        """By the device's events."""
        # Where nothing comes between, one interval holds all of them.
        intervals = times if before is not None else 1
        events = [(_Event(enable_timing=True), _Event(enable_timing=True)) for _ in range(intervals)]
        for begin, end in events:
            if before is not None:
                before.replay()
            _record(begin)
            for _ in range(times // intervals):
                recording.replay()
            _record(end)
        _synchronize(self._device)
        return int(sum(_elapsed_time(begin, end) for begin, end in events) * 1e6)


def _refuse_other_nodes(graph: int) -> None:
    """Whatever is not the device's own work would run, or wait, where nobody looks.

    Raises:
        CannotRecord: there is something else in it.
    """
    count = _c_size_t()
    _check(cuda_driver().cuGraphGetNodes(_c_void_p(graph), None, _byref(count)))
    if not count.value:
        return
    nodes = (_c_void_p * count.value)()
    _check(cuda_driver().cuGraphGetNodes(_c_void_p(graph), nodes, _byref(count)))
    for node in nodes:
        kind = _c_int()
        _check(cuda_driver().cuGraphNodeGetType(_c_void_p(node), _byref(kind)))
        if kind.value not in _ON_THE_DEVICE:
            raise CannotRecord(f"the graph holds {_ELSEWHERE.get(kind.value, f'a node of kind {kind.value}')}")


def _check(status: int) -> None:
    if status:
        raise CannotRecord(f"its nodes cannot be listed: CUDA driver error {status}")
