"""docs/results.md, written from the result files.

python benchmarks/results_page.py            # print the page
python benchmarks/results_page.py --write    # write docs/results.md
python benchmarks/results_page.py --check    # exit status 1 where docs/results.md differs
"""

import argparse
import sys
from pathlib import Path

import _results_cpu as cpu
import _results_gpu as gpu
import _results_h100 as h100
from _shared import RESULTS, ROOT

PAGE = ROOT / "docs" / "results.md"

INTRODUCTION = """
# Results

How fast the kernels, the search and the log are, how steady the judge is, and against what. The
tables come from files in [benchmarks/results/](../benchmarks/results/), with raw samples.
[benchmarks/README.md](../benchmarks/README.md) has the command that measures each.

This page is generated: `python benchmarks/results_page.py --write`. A `+` after a commit means
that the working tree had changes. Speedups are ratios of medians. An interval covers 95 %, and a
win is an interval above 1.
"""

ELSEWHERE = """
## Figures on other pages

| page | figures | file |
| --- | --- | --- |
| [judge.md](judge.md) | finalists in ordinary processes | `ordinary.json` |
| [nvidia.md](nvidia.md#device-and-call) | time on the device and of the call | |
| [export.md](export.md) | seconds and memory of each export | `export.json` |
| [cpp-math.md](cpp-math.md) | error and speed of the C++ math functions | `cpp_math.json` |
"""


def page(results: Path = RESULTS) -> str:
    """The whole page."""
    sections = (
        *(cpu.kernels(results), gpu.operators(results), gpu.kernelbench(results), gpu.searches(results)),
        *(h100.published(results), h100.kernelbench(results)),
        *(cpu.search(results), cpu.judge(results), cpu.log(results), cpu.seeds(results), cpu.fleet(results)),
    )
    return "\n\n".join((INTRODUCTION.strip(), *sections, ELSEWHERE.strip())) + "\n"


def main() -> int:
    """Print, write or check the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--write", action="store_true", help="write the page")
    action.add_argument("--check", action="store_true", help="exit status 1 where the page differs")
    parser.add_argument("--page", type=Path, default=PAGE, help="the page; default: docs/results.md")
    options = parser.parse_args()
    text = page()
    if options.write:
        options.page.write_text(text, encoding="utf-8")
    elif options.check:
        if not options.page.exists() or options.page.read_text(encoding="utf-8") != text:
            print(f"{options.page} differs: run python benchmarks/results_page.py --write", file=sys.stderr)
            return 1
    else:
        sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
