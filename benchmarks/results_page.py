"""docs/results.md, written from the result files.

python benchmarks/results_page.py            # print the page
python benchmarks/results_page.py --write    # write docs/results.md
python benchmarks/results_page.py --check    # exit status 1 where docs/results.md differs
"""

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import _results_authors as outside
import _results_cpu as cpu
import _results_drafts as first
import _results_gpu as gpu
import _results_h100 as h100
import _results_judged as judged
from _shared import RESULTS, ROOT

PAGE = ROOT / "docs" / "results.md"

INTRODUCTION = """
# Results

How fast the kernels, the search and the log are, how steady the judge is, and against what. The
tables come from files in [benchmarks/results/](../benchmarks/results/), with raw samples.
[benchmarks/README.md](../benchmarks/README.md) has the command that measures each. This page is
generated: `python benchmarks/results_page.py --write`.

- A speedup is a ratio of medians, with a 95 % interval in brackets. A win is an interval above 1.
- Baselines are eager PyTorch, `torch.compile` and max-autotune. The best is the fastest of them.
- A draft is a first kernel of the code generator, without a search. The judge is the harness that
  verifies and times kernels ([judge.md](judge.md)).
- Each table names the commit and machine of its run. A `+` stands for uncommitted changes.
"""

ELSEWHERE = """
## Figures on other pages

| page | figures | file |
| --- | --- | --- |
| [ordinary processes](judge/ordinary-processes.md) | finished files | `ordinary.json` |
| [nvidia.md](nvidia.md#device-and-call) | time on the device and of the call | |
| [export.md](export.md) | seconds and memory of each export | `export.json` |
| [cpp-math.md](cpp-math.md) | error and speed of the C++ math functions | `cpp_math.json` |
"""


def page(results: Path = RESULTS) -> str:
    """The whole page."""
    sections = (
        *(cpu.kernels(results), gpu.operators(results), gpu.kernelbench(results), gpu.searches(results)),
        *(judged.level_1(results), judged.level_2(results), judged.level_3(results)),
        *(first.drafts(results), h100.published(results)),
        *(outside.authors(results), outside.bare(results)),
        *(
            outside.overhead(results),
            cpu.search(results),
            cpu.judge(results),
            cpu.log(results),
            cpu.seeds(results),
            cpu.fleet(results),
        ),
    )
    parts = (*sections, ELSEWHERE.strip())
    return "\n\n".join((INTRODUCTION.strip(), contents(parts), *parts)) + "\n"


def contents(parts: Sequence[str]) -> str:
    """Links to the sections, each of which begins with its title."""
    titles = [part.partition("\n")[0].removeprefix("## ") for part in parts]
    anchors = [re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles]
    return "Sections:\n\n" + "\n".join(f"- [{title}](#{anchor})" for title, anchor in zip(titles, anchors, strict=True))


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
