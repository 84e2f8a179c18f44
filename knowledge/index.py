"""The corpus's index: what there is, for people. ``python -m kernelswarm.knowledge.index`` writes it anew."""

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from .documents import Document, corpus

_HEAD = """# Knowledge

What the synthesizer may look up. Every document begins with a front matter (`title`, `platform`, `language`,
`bottleneck`, `phase`, and `operators` where it is about some); retrieval goes by that alone.
Made by `python -m kernelswarm.knowledge.index`.
"""


def render_index(documents: Sequence[Document]) -> str:
    """The text of ``corpus/index.md``."""
    parts = [_HEAD]
    for folder, group in groupby(documents, key=lambda document: document.path.rpartition("/")[0]):
        parts.append(f"## {folder}\n")
        parts.append("\n".join(_line(document) for document in group) + "\n")
    return "\n".join(parts)


def _line(document: Document) -> str:
    tags = f"{', '.join(document.bottleneck)}; {', '.join(document.phase)}"
    return f"- [{document.title}]({document.path}): {tags}"


if __name__ == "__main__":
    Path(__file__).with_name("corpus").joinpath("index.md").write_text(render_index(corpus()), encoding="utf-8")
