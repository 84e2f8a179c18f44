"""``kernelswarm knowledge``: what authors that are models look up. Search it, read it, add a chip's manuals to it."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from ...hardware.languages import LANGUAGES
from ...hardware.platforms import chips
from ...hardware.pools.pool_files import find_pool
from ...knowledge import Hit, Library, open_library
from ...knowledge.documents import Document, corpus
from ...knowledge.lint import Problem, lint
from ...knowledge.manual_files import KINDS
from ...knowledge.manuals import AddedManual, add_manuals, manual_names, other_files, remove_manual
from ...schemas import InputError, Schema
from ...sessions.home import kernelswarm_home
from ..completion import pool_names
from ..display.terminal import err, out, plain_table, print_json, print_value, print_wide, write
from ..groups import add_commands, group
from ..nearest import nearest
from ..options import Json, Pool

EXIT_NO = 1
MOST_NAMED = 5
"""Files that are left out, by name."""

app = group("knowledge", "What authors that are models look up: search and read it, add the manuals of a chip.")


def document_paths(incomplete: str) -> list[str]:
    """Shipped documents whose path begins with ``incomplete``."""
    return [document.path for document in corpus() if document.path.startswith(incomplete)]


def add(
    source: Annotated[Path, typer.Argument(help="Folder or file: Markdown, text or PDF.", show_default=False)],
    pool: Pool = "cpu",
    json: Json = False,
) -> int:
    """Add manuals to a pool. They are cut into sections; the next session on that pool retrieves from them.

    A manual of the same name is replaced. A Markdown file with the front matter of a knowledge document keeps it.
    """
    added = add_manuals(source, find_pool(pool, kernelswarm_home()), kernelswarm_home())
    if others := other_files(source):
        names = ", ".join(str(file.relative_to(source)) for file in others[:MOST_NAMED])
        more = f" and {len(others) - MOST_NAMED} more" if len(others) > MOST_NAMED else ""
        err.print(f"left out, since only {', '.join(KINDS)} files are read: {names}{more}", markup=False)
    print_value(added, lambda manuals: out.print(*map(_added, manuals), sep="\n", markup=False), json=json)
    return 0


def search(
    query: Annotated[str, typer.Argument(help="Words: a question, a name, a compiler's message.", show_default=False)],
    pool: Pool = "cpu",
    language: Annotated[
        str,
        typer.Option(
            "--language",
            "-l",
            help="Only for candidates in this language.",
            autocompletion=lambda: list(LANGUAGES),
            show_default=False,
        ),
    ] = "",
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=50, help="How many documents.")] = 5,
    json: Json = False,
) -> int:
    """Find documents for a pool by words, as a model's tool does. Exit status 1: nothing matches.

    The score counts points: 0 to 6 for the words, 2 for each operator, 3 for a manual of yours.
    """
    if language and language not in LANGUAGES:
        raise InputError(
            f"--language {language!r} is none{nearest(language, LANGUAGES)}; there is {', '.join(LANGUAGES)}"
        )
    library = _library(pool)
    hits = library.search(library.query(language=language, words=(query,)), limit=limit)
    if json:
        print_json([hit.record(with_text=False) for hit in hits])
    elif hits:
        print_wide(_hits(hits))
        err.print(SCORE, markup=False, style="dim")
    else:
        err.print(f"nothing for pool {pool} has these words; kernelswarm knowledge list --pool {pool}", markup=False)
    return 0 if hits else EXIT_NO


def show(
    path: Annotated[
        str,
        typer.Argument(help="Path of a document, as search and list print it.", autocompletion=document_paths),
    ],
    pool: Annotated[
        str,
        typer.Option(
            "--pool", "-p", help="Pool whose manuals are meant.", autocompletion=pool_names, show_default=False
        ),
    ] = "",
    json: Json = False,
) -> int:
    """Print one document: what it says, what it is about, where its facts can be checked."""
    document = _library(pool).read(path) if pool else _shipped(path)
    print_value(document, _print, json=json)
    return 0


def list_(pool: Pool = "cpu", json: Json = False) -> int:
    """List every document that a pool may see, its manuals included."""
    library = _library(pool)
    if json:
        print_json([Listed.of(document) for document in library.documents])
        return 0
    table = plain_table("path", "level", "title", never_wrapped=("path",))
    for document in library.documents:
        table.add_row(escape(document.path), document.level, escape(document.title))
    print_wide(table)
    home = kernelswarm_home()
    names = manual_names(find_pool(pool, home), home)
    err.print(f"{len(library.documents)} documents; manuals: {', '.join(names) or 'none'}", markup=False)
    return 0


def remove(
    name: Annotated[str, typer.Argument(help="Manual, as `knowledge list` names it.", show_default=False)],
    pool: Pool = "cpu",
    json: Json = False,
) -> int:
    """Take a manual away from a pool. Sessions that retrieved from it keep what they retrieved."""
    home = kernelswarm_home()
    remove_manual(name, find_pool(pool, home), home)
    if json:
        print_json({"removed": name, "pool": pool})
    else:
        out.print(f"manual {name} of pool {pool} is gone", markup=False)
    return 0


def lint_(
    folder: Annotated[
        Path | None,
        typer.Argument(help="Folder of knowledge documents; by default those that ship.", show_default=False),
    ] = None,
    json: Json = False,
) -> int:
    """Check documents: front matter, length, sources, chips. Exit status 1: something is wrong."""
    count, problems = lint(folder)
    if json:
        print_json(Linted(documents=count, problems=problems))
    else:
        for problem in problems:
            err.print(f"{problem.path}: {problem.message}", markup=False)
        out.print(f"{count} documents, {len(problems)} problems", markup=False)
    return EXIT_NO if problems else 0


SCORE = "score: points for words, operators and manuals of yours; overviews before details (docs/knowledge.md)"
"""What stands below the documents that were found."""


class Listed(Schema, frozen=True, kw_only=True):
    """A document without its text."""

    path: str
    title: str
    level: str
    platform: tuple[str, ...]
    language: tuple[str, ...]
    chip: tuple[str, ...]
    characters: int

    @staticmethod
    def of(document: Document) -> "Listed":
        """Of ``document``."""
        return Listed(
            path=document.path,
            title=document.title,
            level=document.level,
            platform=document.platform,
            language=document.language,
            chip=document.chip,
            characters=len(document.text),
        )


class Linted(Schema, frozen=True, kw_only=True):
    """What ``lint --json`` prints."""

    documents: int
    problems: tuple[Problem, ...]


EXAMPLES: dict[str, tuple[str, ...]] = {
    "add": (
        "kernelswarm knowledge add ~/manuals/my-chip --pool h200",
        "kernelswarm knowledge add optimisation-guide.pdf --pool cpu",
    ),
    "search": (
        'kernelswarm knowledge search "wgmma descriptor swizzle" --pool h200',
        'kernelswarm knowledge search "page faults" --json | jq .[].path',
    ),
    "show": (
        "kernelswarm knowledge show hardware/nvidia/tma.md",
        "kernelswarm knowledge show manuals/optimisation-guide/0007-memory.md --pool cpu",
    ),
    "list": ("kernelswarm knowledge list --pool h200",),
    "remove": ("kernelswarm knowledge remove optimisation-guide --pool cpu",),
    "lint": ("kernelswarm knowledge lint", "kernelswarm knowledge lint my-documents/ --json"),
}

add_commands(app, (add, search, show, list_, remove, lint_), EXAMPLES)


def _library(name: str) -> Library:
    home = kernelswarm_home()
    pool = find_pool(name, home)
    return open_library(pool, chips(pool), home)


def _shipped(path: str) -> Document:
    documents = {document.path: document for document in corpus()}
    if path not in documents:
        hint = "; --pool names the pool of a manual" if path.startswith("manuals/") else nearest(path, documents)
        raise InputError(f"no document {path!r} ships{hint}")
    return documents[path]


def _added(manual: AddedManual) -> str:
    verb = "replaced" if manual.replaced else "added"
    return f"{verb} {manual.name}: {manual.sections} sections, {manual.characters} characters, from {manual.source}"


def _hits(hits: tuple[Hit, ...]) -> Table:
    table = plain_table("score", "level", "path", "title", "because of", never_wrapped=("path",))
    for hit in hits:
        document = hit.document
        table.add_row(
            f"{hit.score:.2f}",
            document.level,
            escape(document.path),
            escape(document.title),
            escape("; ".join(hit.reasons)),
        )
    return table


def _print(document: Document) -> None:
    write(f"# {document.title}\n\n{document.text.strip()}\n\n{_about(document)}\n")


def _about(document: Document) -> str:
    facts = {
        "platform": document.platform,
        "language": document.language,
        "chip": document.chip,
        "bottleneck": document.bottleneck,
        "failure": document.failure,
        "sources": document.sources,
    }
    return "\n".join(f"{name}: {'; '.join(words)}" for name, words in facts.items() if any(words))
