"""What all ordinary processes of a device have in common."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ...schemas import Accelerator, HardwareFacts, Pool
from ..processes.messages import HOST


@dataclass(frozen=True)
class Settings:
    """The same for every problem and every shape."""

    pool: Pool
    hardware: HardwareFacts
    home: Path
    """Folder of compiled artifacts and caches."""
    baselines: Sequence[str]
    accelerator: Accelerator | None = None
    """The one that all of them compute on; None: in main memory."""

    @property
    def device(self) -> str:
        """Where their tensors lie, as torch names it: of accelerators they see only theirs."""
        return "cuda:0" if self.accelerator else HOST

    @property
    def memory(self) -> int:
        """Bytes that a candidate's process may take."""
        return self.pool.candidate_memory_bytes or self.hardware.memory_bytes // 2
