"""Triton candidates for modules with state, by Triton's interpreter. Run as a script, in its own process, with this
folder and tests/support on the path:

    python triton_modules.py FOLDER NAME…

It writes FOLDER/report.json: how often each candidate ran its kernels and was right.
"""

import json
import sys
from pathlib import Path

import interpreted  # noqa: F401
import torch
from compared import Pair
from modules import MODULES

CALLS = 3
LAST = {"own_convolutions": False, "channels_last": True}


def main(folder, names):
    report = {}
    for name in names:
        torch.manual_seed(0)
        target, makers = MODULES[name]
        pair = Pair(target, makers[0](), "triton", folder / f"{name}.py", **LAST)
        for number in range(CALLS):
            pair.call(makers[0], falls_back=False)
            report[name] = number + 1
    (folder / "report.json").write_text(json.dumps(report))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
