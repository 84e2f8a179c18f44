"""Manuals that users add to a pool: kept as sections in ``home/knowledge/POOL``, one Markdown file each."""

from pathlib import Path

from ..schemas import Pool
from .documents import ANY, Document
from .retrieval import MANUALS

FOLDER = "knowledge"
"""Below the home folder."""


def manuals_of(pool: Pool, home: Path) -> tuple[Document, ...]:
    """Every section that was added to ``pool``, by path."""
    root = home / FOLDER / pool.name
    return tuple(_section(path, root, pool) for path in sorted(root.rglob("*.md")))


def _section(path: Path, root: Path, pool: Pool) -> Document:
    text = path.read_text(encoding="utf-8", errors="replace")
    first, _, body = text.partition("\n")
    title = first.removeprefix("# ").strip() if first.startswith("# ") else path.stem
    return Document(
        path=MANUALS + path.relative_to(root).as_posix(),
        title=title,
        platform=(pool.platform,),
        language=(ANY,),
        text=(body if first.startswith("# ") else text).strip() + "\n",
    )
