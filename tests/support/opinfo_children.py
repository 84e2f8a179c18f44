"""Children of a run that do not do what they should."""

import os
import signal
import time

from kernelswarm.bench.opinfo.task import Task


def misbehave(task: Task, connection) -> None:  # type: ignore[no-untyped-def]
    """Begin sample 3, and do what the task's name says."""
    connection.send(3)
    match task.name:
        case "dies":
            os.kill(os.getpid(), signal.SIGKILL)
        case "exits":
            os._exit(7)
        case "hangs":
            time.sleep(60)
