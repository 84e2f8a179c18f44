"""Writes the finished file out of a problem, its facts and a candidate's source. Pure, and free of torch."""

import ast
import re
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ...schemas import CONTIGUOUS, FROM_SEED, InputFact, Problem, ProblemFacts, ProblemFormat, VerifyReport
from ..sources.native_source import CANDIDATE, parsed, parts_of
from ..sources.parsing import parse

PARTS = (
    "embedded",
    "conditions",
    "constructor",
    "own_backward",
    "functions",
    "bridge",
    "modules",
    "comparing",
    "../machine/background_load",
    "selfcheck",
)
"""The files, seen from this one, whose code goes into every finished file, in this order."""
NOT_SUPPORTED = "NotSupported"
"""Class of a candidate that knows where it is right."""
WIDTH = 110
"""Characters of a line of the file's description."""
_NEEDED = {"": "", "cpu": "a C++ compiler", "cuda": "an NVIDIA GPU"}
_FLOATING = ("float16", "bfloat16", "float32", "float64")

_FUNCTION = """\
kernel = drop_in_function(REFERENCE.reference, CANDIDATE, SEARCHED)
kernel.__module__ = __name__
__all__ = ["kernel"]
"""
_MODULE = '''\
FINISHED = Finished(REFERENCE, CANDIDATE, SEARCHED)


@drop_in_module(FINISHED)
class ModelNew(DropIn, REFERENCE.Model):
    """The reference's ``Model``, computed by the kernel wherever that is safe."""


__all__ = ["ModelNew"]
'''
_MAIN = """
if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], globals()))
"""


def finish(
    problem: Problem, facts: ProblemFacts, source: str, verified: VerifyReport | None = None, *, header: str = ""
) -> str:
    """The text of ``best.py``: the candidate ``source`` as a drop-in for the reference of ``problem``.

    A module that takes no weights but makes its own, from the reference's seed, can be no drop-in: it stays the file
    that it is.

    Args:
        problem: Its source goes into the file as it is.
        facts: What problem validation found: which calls the kernel was searched for.
        source: The candidate's file, which goes into the file as it is, too.
        verified: What the judge found: whether its own gradients are right, and how it takes the weights.
        header: Lines for the top: what the file is and what it beats.
    """
    if verified is not None and verified.weights == FROM_SEED:
        return "".join(f"# {line}".rstrip() + "\n" for line in header.strip().splitlines()) + source
    imports, code = _support()
    parts = [
        f'"""{_docstring(problem, facts, source, header)}"""',
        "",
        *imports,
        "",
        f"{CANDIDATE} = {literal(source)}",
        "",
        f"KERNELSWARM_REFERENCE = {literal(problem.source)}",
        "",
        f"SEARCHED = {_printed(_searched(problem, facts, source, verified))}",
        "",
        "# What follows is the same in every finished file. " + "-" * 65,
        "",
        *code,
        "",
        'REFERENCE = embedded(__name__, globals().get("__file__", "best.py"), "reference", KERNELSWARM_REFERENCE)',
        'CANDIDATE = Later(__name__, globals().get("__file__", "best.py"), "candidate", KERNELSWARM_CANDIDATE)',
        _MODULE if facts.is_module else _FUNCTION,
        _MAIN,
    ]
    return "\n".join(parts)


def literal(text: str) -> str:
    """``text`` as a Python literal that shows its lines as they are."""
    # A quotation mark at the end would lengthen the closing ones.
    escaped = re.sub(r'\\|"""|"\Z', lambda match: "".join(f"\\{mark}" for mark in match.group()), text)
    escaped = re.sub(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]", lambda match: f"\\u{ord(match.group()):04x}", escaped)
    return f'"""\\\n{escaped}"""'


def _docstring(problem: Problem, facts: ProblemFacts, source: str, header: str) -> str:
    text = header.strip().strip('"').strip() or f"A kernel for {problem.name}, made by kernelswarm."
    usage = (
        "Run as a program it checks itself against the reference that it carries, and times itself. Calls that the\n"
        "kernel was not searched for (other types, devices or modes; gradients that it does not have) are computed\n"
        "by the reference."
    )
    use = "\n".join(textwrap.wrap(f"{_use(facts)} {_needs(source)}", WIDTH))
    return literal(f"{text}\n\n{use}\n{usage}\n").removeprefix('"""\\\n').removesuffix('"""')


def _use(facts: ProblemFacts) -> str:
    if facts.is_module:
        return "Use: `from best import ModelNew`, made with the arguments of Model, loads Model's state_dict."
    return f"Use: `from best import kernel`; kernel({', '.join(facts.parameter_names)})."


def _needs(source: str) -> str:
    """What the user's machine has to have."""
    packages = {_NEEDED[_device(text)] for text in parts_of(source).values() or [source]}
    return f"It needs torch{' and '.join(['', *sorted(packages - {''})])}."


def _support() -> tuple[list[str], list[str]]:
    """The imports and the code of all parts."""
    imports: dict[str, None] = {}
    code: list[str] = []
    for part in PARTS:
        text = (Path(__file__).parent / f"{part}.py").read_text(encoding="utf-8")
        tree = parse(text)
        head = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
        imports |= {ast.unparse(node): None for node in head if not getattr(node, "level", 0)}
        begin = max(node.end_lineno or 0 for node in head)
        summary = str(ast.get_docstring(tree)).partition("\n")[0].removeprefix("Part of every finished file: ")
        code += [f"# {summary}", *text.split("\n")[begin:]]
    return _merged(imports), code


def _merged(imports: Iterable[str]) -> list[str]:
    """Import statements, one for each module."""
    plain = sorted(line for line in imports if line.startswith("import "))
    names: dict[str, set[str]] = {}
    for line in imports:
        if line.startswith("from "):
            module, listed = line.removeprefix("from ").split(" import ")
            names.setdefault(module, set()).update(listed.split(", "))
    return [
        *plain,
        *(f"from {module} import {', '.join(sorted(symbols))}" for module, symbols in sorted(names.items())),
    ]


def _searched(problem: Problem, facts: ProblemFacts, source: str, verified: VerifyReport | None) -> dict[str, Any]:
    """What the kernel was searched for, as the drop-in reads it."""
    both = facts.has_backward
    rows = [shape.inputs[:-1] if both else shape.inputs for shape in facts.shapes]
    floating = sum(fact.dtype in _FLOATING for fact in rows[0]) if both else 0
    names = [fact.name for fact in rows[0]]
    limits = verified.limits if verified is not None else ()
    return {
        "problem": problem.name,
        "is_module": facts.is_module,
        "shapes": [shape.name for shape in facts.shapes],
        "timed": [shape.name for shape in facts.timed],
        "types": [list(row) for row in dict.fromkeys(tuple(map(_type, row)) for row in rows)],
        "literals": _literals(rows),
        "device": _device(source),
        "outputs": len(facts.shapes[0].outputs) - floating,
        "state": [(fact.name, fact.kind) for fact in facts.state if fact.kind != "input"],
        "writes": sorted(names.index(f.name) for f in facts.state if f.kind == "input" and f.name in names),
        "gradients": "own" if both or (verified is not None and verified.gradients == "own") else "reference",
        "bound": facts.output_bound,
        "renamed": dict(verified.renamed) if verified is not None else {},
        "contiguous": CONTIGUOUS in limits,
        "sizes": [] if _is_asked_elsewhere(problem, facts, source) else _sizes(rows),
    }


def _is_asked_elsewhere(problem: Problem, facts: ProblemFacts, source: str) -> bool:
    """Whether the judge saw the candidate at shapes that the problem does not name, or it says no by itself there."""
    of_older_events = problem.format is not ProblemFormat.kernelbench and not facts.input_kinds
    if of_older_events or facts.has_held_out_shapes:
        return True
    return any(isinstance(node, ast.ClassDef) and node.name == NOT_SUPPORTED for node in ast.walk(parsed(source)))


def _sizes(rows: list[tuple[InputFact, ...]]) -> list[tuple[tuple[int, ...], ...]]:
    """Of all tensors of a call, for each shape of the problem."""
    return [tuple(fact.shape for fact in row if fact.kind == "tensor") for row in rows]


def _type(fact: InputFact) -> str:
    return f"torch.{fact.dtype}" if fact.kind == "tensor" else fact.kind


def _literals(rows: list[tuple[InputFact, ...]]) -> dict[int, list[str]]:
    """Values that arguments other than tensors must have. A size, which differs from shape to shape, may be any."""
    literals = {}
    for index, facts in enumerate(zip(*rows, strict=False)):
        texts = list(dict.fromkeys(fact.literal for fact in facts if fact.literal))
        is_size = facts[0].kind == "int" and len(texts) > 1
        if (texts and not is_size) or facts[0].kind == "other":
            literals[index] = texts
    return literals


def _device(source: str) -> str:
    """Where the kernel runs, by the language of its native code; empty: wherever its inputs are."""
    devices = {_device_of(text) for text in parts_of(source).values() or [source]}
    return max(devices, key=("", "cpu", "cuda").index)


def _device_of(source: str) -> str:
    tree = parsed(source)
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    names |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.keyword) and node.arg}
    if names & {"CUDA_SOURCE", "cuda_sources"} or any(name.split(".")[0] == "triton" for name in imported):
        return "cuda"
    return "cpu" if "CPP_SOURCE" in names else ""


def _printed(value: dict[str, Any]) -> str:
    return "{\n" + "".join(f"    {key!r}: {item!r},\n" for key, item in value.items()) + "}"
