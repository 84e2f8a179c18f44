"""Leaves the network, for processes of the harness and for compilers alike. Needs nothing but the standard library."""

import os
from collections.abc import Callable
from pathlib import Path

from . import linux


def leave_network() -> tuple[str, ...]:
    """Cut this process and its children off the network; without the right to, inside a user namespace of its own."""
    for leave, layers in ((_leave_as_we_are, ("netns",)), (_leave_as_another, ("userns", "netns"))):
        # Tried in a child first: half a way into a user namespace, nothing works any more.
        if _works(leave):
            leave()
            return layers
    return ()


def _works(leave: Callable[[], None]) -> bool:
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            leave()
            status = 0
        except OSError:
            pass
        finally:
            os._exit(status)
    return os.waitpid(pid, 0)[1] == 0


def _leave_as_we_are() -> None:
    linux.unshare(linux.CLONE_NEWNET | linux.CLONE_NEWIPC)


def _leave_as_another() -> None:
    user, group = os.getuid(), os.getgid()
    linux.unshare(linux.CLONE_NEWUSER | linux.CLONE_NEWNET | linux.CLONE_NEWIPC)
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
