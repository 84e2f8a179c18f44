"""For check_nvidia.py: several sessions at once profile on one device, one right after another.

    python3 tests/device/counters_in_turn.py HOME     # one such session by itself

Each is a process of its own with the home in common. None may miss what another one had a moment ago.
"""

import asyncio
import subprocess
import sys
from pathlib import Path

SESSIONS = 3
ROUNDS = 3
MOST_SECONDS = 400


def profile_in_turn(home: Path) -> str:
    """Start the sessions and read what they saw; raises AssertionError with their reasons."""
    command = [sys.executable, __file__, str(home)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(SESSIONS)]
    printed = [process.communicate(timeout=MOST_SECONDS)[0] for process in running]
    assert not any(process.returncode for process in running), printed
    lines = [line for text in printed for line in text.splitlines()]
    assert len(lines) == SESSIONS * ROUNDS, printed
    missed = [line for line in lines if not line.startswith("saw")]
    permitted = any(line.startswith("saw") for line in lines)
    assert not (permitted and missed), f"some saw counters and others did not: {missed}"
    return f"{SESSIONS} sessions, {ROUNDS} profiles each: {lines[0]}"


def main(home: Path) -> None:
    """One session: its profiles, a line each."""
    from common import pool_and_facts

    from kernelswarm.hardware.harness.inspection import profilers_for
    from kernelswarm.hardware.machine.lease import Lease
    from kernelswarm.hardware.profilers.accelerator import PROBE

    pool, facts = pool_and_facts(home)
    device = facts.accelerators[0]

    async def run() -> None:
        lease = Lease(pool, home, device.uuid)
        profilers = profilers_for(device, home)
        try:
            for _ in range(ROUNDS):
                profilers.get_ready(lease)
                profile = await profilers.profile(PROBE, (), lease)
                sources = profile.sources if profile else ()
                reasons = profile.unavailable if profile else profilers.missing
                print(f"saw {sources}" if "ncu" in sources else f"missed: {'; '.join(reasons)}", flush=True)
        finally:
            await profilers.close()

    asyncio.run(run())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
