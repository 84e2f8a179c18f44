"""Imports torch once, then forks a child for each job: no candidate pays four seconds for its import.

It never enters an OpenMP region and never touches a tensor: libgomp hangs in the child of a process that did. Each job
gets two processes: a *reaper* (first process of a PID namespace where permitted) and the child proper. The reaper kills
the child, and whatever the child left behind, at the parent-death signal: the supervisor asks for it, closes its
end of their socket, or was killed. All of them end with the fork server, and the fork server ends with the supervisor.
"""

import contextlib
import os
import socket
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from ...processes import fork_server, sandbox, wire
from ...processes.messages import Hello, Spawn
from ...processes.reaped_child import run_reaper

Main = Callable[[socket.socket, Spawn], None]


def main(descriptor: int, target: str = "", cache: str = "") -> None:
    """Serve spawn requests on the socket ``descriptor`` until its other end is gone.

    With ``target`` (``sm_90``) children can launch Triton's kernels; its driver module is kept in ``cache``.
    """

    def load() -> fork_server.Child:
        roles = _load()
        from ...capture import capture
        from ..calls import integrity

        if target:
            from ...languages._triton_runtime import prepare

            with contextlib.suppress(ImportError):
                prepare(Path(cache), target)
        else:
            # What every process of baselines, every contract suite and every validation would import, one or two
            # seconds each time. Not beside an accelerator: some of it asks CUDA for its devices, which no child could
            # use then.
            import torch._inductor.compile_fx  # noqa: F401

            capture.trace_once()
        integrity.get_ready()
        return lambda request, descriptors, layers: _keep(roles, request, descriptors, layers)

    fork_server.serve(descriptor, Spawn, load)


def _load() -> dict[str, Main]:
    # Replaces functions of torch when it is first imported, which must not look like a candidate's doing.
    import torch._dynamo

    # What capturing a graph imports: every problem validation would, a quarter of a second each time.
    import torch.export._trace  # noqa: F401

    from ...capture import capture
    from ..calls import vector_math  # noqa: F401
    from . import baseline, candidate, contract_suite, problem_validation, reference

    capture.get_ready()
    return {
        "admission": problem_validation.serve,
        "baseline": baseline.serve,
        "candidate": candidate.serve,
        "contract": contract_suite.serve,
        "reference": reference.serve,
    }


def _keep(roles: dict[str, Main], request: Spawn, descriptors: list[int], layers: tuple[str, ...]) -> NoReturn:
    def work(connection: socket.socket, layers: tuple[str, ...]) -> None:
        from ..calls.vector_math import choose_functions

        os.chdir(request.scratch)
        tempfile.tempdir = request.scratch  # torch asked for it before the fork, and the module remembers
        layers += sandbox.limit(request)
        choose_functions()
        wire.send(connection, Hello(isolation=("process", *layers)))
        roles[request.role](connection, request)

    os.environ |= request.environment
    run_reaper(request, descriptors, layers, work)


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
