"""Manuals that a user adds: how they are read, cut, kept and found."""

from pathlib import Path

import pytest

from kernelswarm.knowledge import open_library
from kernelswarm.knowledge.manual_files import read_manual
from kernelswarm.knowledge.manuals import add_manuals, manual_names, remove_manual
from kernelswarm.knowledge.sections import MOST_CHARACTERS, markdown_sections, text_sections
from kernelswarm.schemas import InputError, Pool

POOL = Pool(name="mine", platform="nvidia", languages=("triton",), target="sm_90")
LONG = "The blixt unit moves tiles of sixteen rows. " * 8


def pdf(*pages: str) -> bytes:
    """A PDF with a page for each text, one line of it after the other."""
    objects: list[bytes] = []
    kids = " ".join(f"{4 + 2 * number} 0 R" for number in range(len(pages)))
    objects.append(b"<< /Type /Catalog /Pages 2 0 R >>")
    objects.append(f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>".encode())
    objects.append(b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>")
    for number, page in enumerate(pages):
        lines = " T* ".join(f"({line}) Tj" for line in page.splitlines())
        stream = f"BT /F1 10 Tf 12 TL 40 700 Td {lines} ET".encode()
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {5 + 2 * number} 0 R "
            "/Resources << /Font << /F1 3 0 R >> >> >>".encode()
        )
        objects.append(f"<< /Length {len(stream)} >>\nstream\n".encode() + stream + b"\nendstream")
    out, offsets = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        offsets.append(len(out))
        out += f"{number} 0 obj\n".encode() + body + b"\nendobj\n"
    table = "".join(f"{offset:010} 00000 n \n" for offset in offsets)
    trailer = f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{len(out)}\n%%EOF\n"
    return out + f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}".encode() + trailer.encode()


def test_markdown_is_cut_at_headings_and_code_is_not_a_heading():
    memory = f"## Memory\n\n{LONG}\n```\n# a comment\n```\n\n### Banks\n\n{LONG}"
    text = f"# Guide\n\n{LONG}\n\n{memory}\n\n## Clocks\n\n{LONG}"
    titles = [section.title for section in markdown_sections(text, "chip")]
    assert titles == [
        "chip > Guide",
        "chip > Guide > Memory",
        "chip > Guide > Memory > Banks",
        "chip > Guide > Clocks",
    ]
    assert "# a comment" in markdown_sections(text, "chip")[1].text


def test_short_sections_go_with_the_next_and_long_ones_become_several():
    (section,) = markdown_sections("# A\n\n## B\n\nshort\n\n## C\n\nshort", "x")
    assert section.title == "x > A > B, C"
    (section,) = markdown_sections("# A\n\nshort\n\n### B\n\nshort\n\n# C\n\nshort", "x")
    assert section.title == "x > A > B, C"
    titles = [section.title for section in markdown_sections(f"# A\n\n{LONG}\n\n## B\n\n## C\n\nshort", "x")]
    assert titles == ["x > A", "x > A > B, C"]
    parts = markdown_sections("# A\n\n" + "\n\n".join([LONG] * 40), "x")
    assert len(parts) > 2 and all(len(part.text) <= MOST_CHARACTERS for part in parts)
    assert parts[0].title == f"x > A (1 of {len(parts)})"
    assert "".join("".join(part.text.split()) for part in parts) == "#A" + "".join(LONG.split()) * 40


def test_text_is_cut_at_numbered_headings_but_not_at_a_table_of_contents():
    contents = "1 Overview ........ 3\n1.1 Registers . . . . . 7\n"
    sections = text_sections([contents, f"1 Overview\n{LONG}\n1.1 Registers\n{LONG}"], "guide")
    assert [(section.title, section.page) for section in sections][-1] == ("guide > 1 Overview > 1.1 Registers", 2)
    assert not any("...." in section.title for section in sections)


def test_a_pdf_is_read_with_its_pages(tmp_path: Path):
    file = tmp_path / "guide.pdf"
    file.write_bytes(pdf(f"1 Overview\n{LONG}", f"2 Blixt units\n{LONG}"))
    sections = read_manual(file)
    assert sections[-1].title.endswith("2 Blixt units") and sections[-1].page == 2
    assert "sixteen rows" in sections[-1].text


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.pdf", b"%PDF-1.4\nnothing more", "is no PDF that can be read"),
        ("a.pdf", b"not a pdf", "is no PDF that can be read"),
        ("a.pdf", b"", "is no PDF that can be read"),
        ("a.txt", b"\0\1\2", "holds zero bytes"),
        ("a.md", b"  \n", "holds no text"),
        ("a.docx", b"x", "is no manual that can be read: .md"),
        ("a.md", b"---\ntitle: T\nplatform: cpu\nlanguage: any\nbottleneck: any\nphase: any\n---\nx\n", "is about cpu"),
        ("a.md", b"---\ntitle: T\nplatform: nvidia\nlanguage: any\nbottleneck: no\nphase: any\n---\nx\n", "bottleneck"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_and_nothing_is_kept(tmp_path: Path, name, content, message):
    file = tmp_path / name
    file.write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        add_manuals(file, POOL, tmp_path / "home")
    assert str(file) in str(caught.value) and manual_names(POOL, tmp_path / "home") == ()


def test_a_folder_with_a_broken_file_keeps_nothing_and_says_so(tmp_path: Path):
    (tmp_path / "manuals").mkdir()
    (tmp_path / "manuals" / "a.md").write_text(LONG)
    (tmp_path / "manuals" / "b.pdf").write_bytes(b"not a pdf")
    with pytest.raises(InputError, match=r"b\.pdf is no PDF .*; nothing of .*manuals was added: mend"):
        add_manuals(tmp_path / "manuals", POOL, tmp_path / "home")
    assert manual_names(POOL, tmp_path / "home") == ()


@pytest.mark.parametrize(("query", "points"), [("blixt rows", 0), ("blixt tiles", 3), ("blixt", 3), ("blixt sum", 3)])
def test_a_manual_has_its_points_for_two_telling_words_or_the_only_one(tmp_path: Path, query: str, points: int):
    (tmp_path / "guide.md").write_text("The sum of blixt tiles.")
    add_manuals(tmp_path / "guide.md", POOL, tmp_path / "home")
    library = open_library(POOL, ("sm_90",), tmp_path / "home")
    hits = library.search(library.query(words=(query,)))
    (reasons,) = [hit.reasons for hit in hits if hit.document.path.startswith("manuals/")]
    assert ("manual of pool mine" in reasons) == (points > 0)


def test_text_of_older_encodings_loses_nothing(tmp_path: Path):
    (tmp_path / "a.md").write_bytes("# Registre été\r\n\r\nLe café.\r\n".encode("latin-1"))
    (section,) = read_manual(tmp_path / "a.md")
    assert section.title == "a > Registre été" and section.text.endswith("Le café.")


def test_an_empty_folder_and_a_missing_one_are_told_apart(tmp_path: Path):
    with pytest.raises(InputError, match="there is no manual in"):
        add_manuals(tmp_path, POOL, tmp_path / "home")
    with pytest.raises(InputError, match="there is no file or folder"):
        add_manuals(tmp_path / "nowhere", POOL, tmp_path / "home")


def test_two_files_of_one_name_are_refused(tmp_path: Path):
    (tmp_path / "guide.md").write_text(LONG)
    (tmp_path / "guide.txt").write_text(LONG)
    with pytest.raises(InputError, match="would both be kept as 'guide'"):
        add_manuals(tmp_path, POOL, tmp_path / "home")


def test_what_was_added_is_retrieved_replaced_and_removed(tmp_path: Path):
    source, home = tmp_path / "manuals", tmp_path / "home"
    (source / "deep").mkdir(parents=True)
    (source / "deep" / "Chip Guide.md").write_text(f"# Blixt units\n\n{LONG}")
    (source / ".hidden.md").write_text(LONG)
    (added,) = add_manuals(source, POOL, home)
    assert (added.name, added.sections, added.replaced) == ("deep-chip-guide", 1, False)

    library = open_library(POOL, ("sm_90",), home)
    hits = library.search(library.query(words=("blixt tiles",)))
    assert hits[0].document.path == "manuals/deep-chip-guide/0001-blixt-units.md"
    assert hits[0].document.sources == ("Chip Guide.md",) and "manual of pool mine" in hits[0].reasons
    assert library.read(hits[0].document.path) == hits[0].document

    (source / "deep" / "Chip Guide.md").write_text(f"# Quark units\n\n{LONG}")
    (again,) = add_manuals(source, POOL, home)
    assert again.replaced
    paths = [document.path for document in open_library(POOL, ("sm_90",), home).documents]
    assert [path for path in paths if path.startswith("manuals/")] == ["manuals/deep-chip-guide/0001-quark-units.md"]

    remove_manual("deep-chip-guide", POOL, home)
    with pytest.raises(InputError, match="has no manual 'deep-chip-guide'; there is none"):
        remove_manual("deep-chip-guide", POOL, home)


def test_a_knowledge_document_of_the_user_keeps_its_signals(tmp_path: Path):
    head = "---\ntitle: Our trick\nplatform: nvidia\nlanguage: triton\nbottleneck: latency\nphase: improve\n---\n"
    (tmp_path / "trick.md").write_text(head + "Do it twice.\n")
    add_manuals(tmp_path / "trick.md", POOL, tmp_path / "home")
    library = open_library(POOL, ("sm_90",), tmp_path / "home")
    hits = library.search(library.query(language="triton", bottleneck="latency"), limit=20)
    assert "manuals/trick/document.md" in [hit.document.path for hit in hits]


def test_a_situation_with_its_words_brings_the_manual_beside_the_shipped_documents(tmp_path: Path):
    (tmp_path / "blixt.md").write_text(f"# Blixt units\n\n{LONG}")
    add_manuals(tmp_path / "blixt.md", POOL, tmp_path / "home")
    library = open_library(POOL, ("sm_90",), tmp_path / "home")
    query = library.query(language="triton", bottleneck="latency", words=("the blixt unit stalls",))
    paths = [hit.document.path for hit in library.search(query)]
    assert "manuals/blixt/0001-blixt-units.md" in paths and any(path.startswith("hardware/") for path in paths)
