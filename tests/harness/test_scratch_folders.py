"""Temporary folders do not pile up."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from kernelswarm.hardware.processes.scratch import PREFIX, Scratch


def test_what_a_killed_supervisor_left_is_swept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    code = "import os\nfrom kernelswarm.hardware.processes.scratch import Scratch\nScratch()\nos.kill(os.getpid(), 9)\n"
    subprocess.run([sys.executable, "-c", code], env={**os.environ, "TMPDIR": str(tmp_path)}, check=False)
    (left,) = tmp_path.glob(f"{PREFIX}*")
    in_use = Scratch()

    Scratch().close()

    assert not left.exists()
    assert list(tmp_path.glob(f"{PREFIX}*")) == [in_use.path]
    in_use.close()
