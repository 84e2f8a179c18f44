"""Reading a manual's file: Markdown, plain text, PDF."""

import logging
from collections.abc import Callable
from pathlib import Path

from ..schemas import InputError
from .sections import Section, markdown_sections, text_sections

MOST_BYTES = 200_000_000


def read_manual(file: Path) -> tuple[Section, ...]:
    """The sections of ``file``, in its order.

    Raises:
        InputError: it is of another kind, cannot be read, or holds no text.
    """
    reader = _READERS.get(file.suffix.lower())
    if reader is None:
        raise InputError(f"{file} is no manual that can be read: {', '.join(KINDS)} are")
    try:
        if file.stat().st_size > MOST_BYTES:
            raise InputError(f"{file} has more than {MOST_BYTES // 1_000_000} MB: split it")
        sections = reader(file)
    except OSError as error:
        raise InputError(f"cannot read {file}: {error.strerror}") from error
    if not sections:
        raise InputError(f"{file} holds no text; scanned pages need text recognition (ocrmypdf) first")
    return sections


def _markdown(file: Path) -> tuple[Section, ...]:
    return markdown_sections(_text(file), file.stem)


def _plain(file: Path) -> tuple[Section, ...]:
    # A form feed separates pages in text made from printed manuals.
    return text_sections(_text(file).split("\f"), file.stem)


def _pdf(file: Path) -> tuple[Section, ...]:
    # Imported here: only this needs it.
    from pypdf import PdfReader
    from pypdf.errors import PyPdfError

    logging.getLogger("pypdf").setLevel(logging.CRITICAL)
    try:
        reader = PdfReader(file)
        if reader.is_encrypted and not reader.decrypt(""):
            raise InputError(f"{file} is encrypted: save a copy without a password")
        pages = [page.extract_text() for page in reader.pages]
    except (PyPdfError, ValueError, KeyError, TypeError, IndexError, RecursionError, ImportError) as error:
        # The library raises what it stumbles over in a damaged file.
        raise InputError(
            f"{file} is no PDF that can be read ({error or type(error).__name__}): save it anew"
        ) from error
    return text_sections(pages, file.stem)


def _text(file: Path) -> str:
    data = file.read_bytes()
    if b"\0" in data:
        raise InputError(f"{file} is not text: it holds zero bytes")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("latin-1")  # every byte is a character there: nothing is lost
    return text.replace("\r\n", "\n")


_READERS: dict[str, Callable[[Path], tuple[Section, ...]]] = {
    ".md": _markdown,
    ".markdown": _markdown,
    ".txt": _plain,
    ".rst": _plain,
    ".pdf": _pdf,
}
KINDS = tuple(_READERS)
"""Endings of files that can be read."""
