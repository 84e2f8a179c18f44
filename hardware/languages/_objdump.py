"""Machine code of a shared library, as ``objdump`` prints it: binutils' or LLVM's."""

import shutil
import tempfile
from pathlib import Path

from ...schemas import PoolError
from ..machine.compilers import SYSTEM
from ..processes.limited_command import Limits, run_limited
from ..processes.linux import LESS_URGENT

TOOLS = ("objdump", "llvm-objdump")
_LIMITS = Limits(seconds=60.0, memory_bytes=2 << 30, file_bytes=1 << 20, niceness=LESS_URGENT)


async def machine_code(library: Path) -> str:
    """Functions with their instructions, names of C++ in plain words; of a very large library the first megabyte.

    Raises:
        PoolError: no tool is here, or it cannot read the file.
    """
    tool = next(filter(None, map(shutil.which, TOOLS)), None)
    if tool is None:
        raise PoolError("objdump is not here: install binutils (`apt-get install binutils`) or LLVM")
    file, home = _real(library), _real(Path(tool)).parent.parent
    with tempfile.TemporaryDirectory(prefix="kernelswarm-objdump-") as folder:
        # Nobody vouches for what a candidate had the compiler write.
        finished = await run_limited(
            [tool, "--disassemble", "--demangle", "--no-show-raw-insn", str(file)],
            cwd=Path(folder),
            limits=_LIMITS,
            readable=(*SYSTEM, str(home), str(file)),
        )
    if finished.timed_out or finished.returncode != 0:
        raise PoolError(f"{Path(tool).name} cannot read {library.name}: {finished.last_line}")
    return finished.output


def _real(path: Path) -> Path:
    return path.resolve()
