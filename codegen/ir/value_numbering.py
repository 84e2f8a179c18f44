"""Value numbering of a generated function: which expressions have the same value, wherever they occur."""

import ast
import re
from dataclasses import dataclass, field

from ...hardware.sources.parsing import parse

_BINARY: dict[type[ast.operator], tuple[str, int]] = {
    ast.Mult: ("*", 6), ast.FloorDiv: ("//", 6), ast.Mod: ("%", 6), ast.Div: ("/", 6), ast.Add: ("+", 5),
    ast.Sub: ("-", 5), ast.BitAnd: ("&", 4), ast.BitOr: ("|", 3),
}  # fmt: skip
"""Operators and how strongly they bind."""
_COMPARED: dict[type[ast.cmpop], str] = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
}  # fmt: skip
COMPARISON, NEGATION, ATOM = 2, 7, 9
_DIVISIONS = ("//", "%", "/")
_FUNCTIONS = {"max", "min", "float", "int", "_cdiv", "_pow2", "_kind"}
"""Functions without side effects that the host calls on sizes."""
_SIZE = re.compile(r"[su]\d+$")
_GROUP = re.compile(r"(?<![\w\])])\(([-+*/%&|<>=! \w]+)\)(?!\w)")
"""In parentheses, names, numbers and operators; no arguments and no words."""
_KEYWORD = re.compile(r"\b(?:if|else|and|or|not|in|is|lambda|await|yield)\b")

Path = tuple[tuple["Block", int], ...]
"""Blocks from the function's own inwards, and the statement in each."""


@dataclass(eq=False)
class Block:
    """Statements that are carried out one after the other."""

    statements: list[ast.stmt]
    always: bool
    """Whether Triton compiles it whenever it compiles what is around it."""


@dataclass
class Value:
    """An expression that has the same value wherever it occurs."""

    op: str
    operands: tuple[int, ...]
    text: str
    """Of a name or a number."""
    binding: int
    constant: bool
    """Whether it is a number."""
    compiled: bool
    """Whether it is known when a kernel is compiled."""
    risky: bool
    """Whether computing it may raise."""
    uses: int = 0
    """Places that have it, where repeated surroundings count once."""
    path: Path = ()
    """Innermost block that all places lie in, and the first statement there that has one."""
    unconditional: bool = False
    """Whether the first statement computes it for sure."""
    name: str = ""


@dataclass
class Place:
    """Where a value is spelled out."""

    number: int
    node: ast.expr
    inner: list["Place"] = field(default_factory=list)


class Groups:
    """Expressions in parentheses, each parsed once: most of a function's text is the same few again and again."""

    def __init__(self, function: str) -> None:
        self.mark = "__"
        while re.search(rf"\b{self.mark}\d", function):
            self.mark += "_"
        self.names: dict[str, str] = {}
        """By text without the parentheses."""
        self.text = function
        """The function with a name for every group, those inside it first."""
        before = ""
        while before != self.text:
            before, self.text = self.text, _GROUP.sub(self._name, self.text)
        self.texts = {name: text for text, name in self.names.items()}
        self.trees: dict[str, ast.expr] = {}

    def _name(self, match: re.Match[str]) -> str:
        if _KEYWORD.search(match[1]):
            return match[0]
        return self.names.setdefault(match[1], f"{self.mark}{len(self.names)}_")

    def tree(self, name: str) -> ast.expr:
        """What a group's name stands for."""
        if name not in self.trees:
            self.trees[name] = parse(self.texts[name].strip(), mode="eval").body
        return self.trees[name]

    def expanded(self, text: str) -> str:
        """``text`` without names for groups."""
        pattern = re.compile(rf"\b{self.mark}\d+_(?!\w)")
        while pattern.search(text):
            text = pattern.sub(lambda name: f"({self.texts[name[0]]})", text)
        return text


class Numbering:
    """Value numbering: equal numbers are equal values."""

    def __init__(self, sizes_only: bool, groups: Groups) -> None:
        self.sizes_only = sizes_only
        self.groups = groups
        self.numbers_of_groups: dict[str, int] = {}
        """Until a name in a group may have another value."""
        self.values: list[Value] = []
        self.numbers: dict[tuple[object, ...], int] = {}
        self.versions: dict[str, int] = {}
        """By name, how often names had been assigned when it was; a name that is not in here is no value."""
        self.compiled: set[str] = set()
        """Names that are ``tl.constexpr``."""
        self.assignments = 0
        self.roots: list[Place] = []
        self.path: Path = ()
        self.conditional = False

    def function(self, definition: ast.FunctionDef) -> None:
        """Number every expression in a function."""
        for argument in definition.args.args:
            self._assign(argument.arg, compiled=_is_constexpr(argument.annotation))
        self._block(definition.body, always=True)

    def _assign(self, name: str, compiled: bool = False) -> None:
        self.assignments += 1
        if name in self.versions:
            self.numbers_of_groups.clear()
        self.versions[name] = self.assignments
        (self.compiled.add if compiled else self.compiled.discard)(name)

    def _block(self, statements: list[ast.stmt], always: bool) -> None:
        outer, block = self.path, Block(statements, always)
        # Nothing can be put in front of what shares a line with what is around it, as ``elif`` does.
        owner = outer[-1][0].statements[outer[-1][1]] if outer else None
        own = owner is None or (bool(statements) and not _shares_line(owner, statements[0]))
        conditional, self.conditional = self.conditional, self.conditional or not own
        for place, statement in enumerate(statements):
            self.path = (*outer, (block, place)) if own else outer
            self._statement(statement)
        self.path, self.conditional = outer, conditional

    def _statement(self, statement: ast.stmt) -> None:
        match statement:
            case ast.FunctionDef() | ast.ClassDef() | ast.Import() | ast.ImportFrom() | ast.Global():
                pass
            case ast.For():
                self._visit(statement.iter)
                self._loop(statement, _is_unrolled(statement.iter))
            case ast.While():
                self._loop(statement, False)
            case ast.If():
                self._visit(statement.test)
                self._block(statement.body, always=False)
                self._forget(statement)
                self._block(statement.orelse, always=False)
                self._forget(statement)
            case ast.With() | ast.Try():
                for child in ast.iter_child_nodes(statement):
                    if isinstance(child, ast.withitem):
                        self._visit(child.context_expr)
                self._block(statement.body, always=False)
                self._forget(statement)
            case _:
                for child in ast.iter_child_nodes(statement):
                    if isinstance(child, ast.expr):
                        self._visit(child)
                constexpr = isinstance(statement, ast.AnnAssign) and _is_constexpr(statement.annotation)
                for name in _assigned(statement):
                    self._assign(name, compiled=constexpr and len(self.path) == 1)

    def _loop(self, statement: ast.For | ast.While, unrolled: bool) -> None:
        self._forget(statement)
        if unrolled:
            for name in _assigned_by(statement.target) if isinstance(statement, ast.For) else ():
                self.versions.pop(name, None)
            self.numbers_of_groups.clear()
        self._block(statement.body, always=True)
        self._forget(statement)

    def _forget(self, statement: ast.stmt) -> None:
        for name in _assigned(statement):
            self._assign(name)

    def _visit(self, node: ast.expr) -> None:
        place = self._place(node)
        if place is not None:
            self._root(place)

    def _root(self, place: Place) -> None:
        value = self.values[place.number]
        if value.op not in ("name", "number"):
            value.uses += 1
            self.roots.append(place)

    def _place(self, node: ast.expr) -> "Place | None":
        """The value at ``node``; None, with what is inside noted, where it is no value."""
        match node:
            case ast.Name() if node.id in self.groups.texts:
                return self._group(node)
            case ast.Name():
                version = self.versions.get(node.id)
                if version is None or (self.sizes_only and not _SIZE.match(node.id)):
                    return None
                return self._leaf("name", node, node.id, version)
            case ast.Constant() if type(node.value) in (int, float):
                return self._leaf("number", node, repr(node.value), 0)
            case ast.BinOp() if type(node.op) in _BINARY:
                op, binding = _BINARY[type(node.op)]
                return self._inner(node, op, binding, [node.left, node.right])
            case ast.UnaryOp(op=ast.USub()):
                return self._inner(node, "neg", NEGATION, [node.operand])
            case ast.Compare() if len(node.ops) == 1 and type(node.ops[0]) in _COMPARED:
                return self._inner(node, _COMPARED[type(node.ops[0])], COMPARISON, [node.left, *node.comparators])
            case ast.Call() if self.sizes_only and not node.keywords and (name := _function(node.func)):
                return self._inner(node, f"{name}()", ATOM, node.args)
            case ast.IfExp():
                self._visit(node.test)
                self._visit_conditionally([node.body, node.orelse])
            case ast.BoolOp():
                self._visit(node.values[0])
                self._visit_conditionally(node.values[1:])
            case ast.Lambda() | ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp() | ast.JoinedStr():
                pass
            case _:
                for child in ast.iter_child_nodes(node):
                    if isinstance(child, ast.expr):
                        self._visit(child)
                    elif isinstance(child, ast.keyword):
                        self._visit(child.value)
        return None

    def _group(self, node: ast.Name) -> Place | None:
        number = self.numbers_of_groups.get(node.id)
        if number is None:
            roots = len(self.roots)
            place = self._place(self.groups.tree(node.id))
            # What is no value as a whole is left as it is.
            del self.roots[roots:]
            if place is None:
                return None
            number = self.numbers_of_groups[node.id] = place.number
        self._note(self.values[number])
        return Place(number, node)

    def _visit_conditionally(self, nodes: list[ast.expr]) -> None:
        before, self.conditional = self.conditional, True
        for node in nodes:
            self._visit(node)
        self.conditional = before

    def _leaf(self, op: str, node: ast.expr, text: str, version: int) -> Place:
        number = self.numbers.setdefault((op, text, version), len(self.values))
        if number == len(self.values):
            compiled = op == "number" or text in self.compiled
            self.values.append(Value(op, (), text, ATOM, op == "number", compiled, False))
        return Place(number, node)

    def _inner(self, node: ast.expr, op: str, binding: int, parts: list[ast.expr]) -> Place | None:
        places = [self._place(part) for part in parts]
        inner = [place for place in places if place is not None]
        if len(inner) < len(places):
            for place in inner:
                self._root(place)
            return None
        operands = tuple(place.number for place in inner)
        number = self.numbers.setdefault((op, *operands), len(self.values))
        if number == len(self.values):
            self.values.append(self._value(op, binding, operands))
            for operand in operands:
                self.values[operand].uses += 1
        value = self.values[number]
        self._note(value)
        return Place(number, node, inner)

    def _value(self, op: str, binding: int, operands: tuple[int, ...]) -> Value:
        values = [self.values[operand] for operand in operands]
        compiled = all(value.compiled for value in values)
        # Where a kernel runs nothing raises; what is compiled into it is computed as Python does.
        divides = op in _DIVISIONS and not values[-1].constant and (self.sizes_only or compiled)
        risky = divides or any(value.risky for value in values)
        return Value(op, operands, "", binding, all(value.constant for value in values), compiled, risky)

    def _note(self, value: Value) -> None:
        """Note that the current statement has ``value``."""
        path = self.path
        if not value.path:
            value.path, value.unconditional = path, not self.conditional
            return
        depth = 0
        for (mine, _), (other, _) in zip(value.path, path, strict=False):
            if mine is not other:
                break
            depth += 1
        if depth < len(value.path):
            value.unconditional &= not may_skip(value, value.path[depth:])
            value.path = value.path[:depth]
            for operand in value.operands:
                self._note(self.values[operand])


def may_skip(value: Value, blocks: Path) -> bool:
    """Whether what is around these blocks might not compute a value of theirs."""
    return any(not (block.always and value.compiled) for block, _ in blocks)


def _is_constexpr(annotation: ast.expr | None) -> bool:
    return isinstance(annotation, ast.Attribute) and annotation.attr == "constexpr"


def _is_unrolled(iterated: ast.expr) -> bool:
    """Whether a loop's variable is a number in every copy of the body."""
    return isinstance(iterated, ast.Call) and "static_range" in ast.unparse(iterated.func)


def _shares_line(owner: ast.stmt, first: ast.stmt) -> bool:
    if owner.lineno == first.lineno:
        return True
    return (
        isinstance(owner, ast.If)
        and isinstance(first, ast.If)
        and owner.orelse[:1] == [first]
        and (first.col_offset == owner.col_offset)
    )


def _assigned(statement: ast.stmt) -> list[str]:
    """Names that a statement, or one in it, assigns."""
    match statement:
        case ast.Assign():
            names = [name for target in statement.targets for name in _assigned_by(target)]
        case ast.AnnAssign() | ast.AugAssign():
            names = _assigned_by(statement.target)
        case ast.For():
            names = _assigned_by(statement.target)
        case ast.With():
            names = [
                name for item in statement.items if item.optional_vars for name in _assigned_by(item.optional_vars)
            ]
        case _:
            names = []
    for part in ("body", "orelse", "handlers", "finalbody"):
        names += [name for inner in getattr(statement, part, ()) for name in _assigned(inner)]
    return list(dict.fromkeys(names))


def _assigned_by(target: ast.expr) -> list[str]:
    nodes = ast.walk(target)
    return [node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]


def _function(function: ast.expr) -> str:
    """Name of a function without side effects; empty if it may have some."""
    if isinstance(function, ast.Name):
        return function.id if function.id in _FUNCTIONS else ""
    is_torch = isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name)
    if is_torch and function.value.id == "torch" and function.attr.startswith("sym_"):  # type: ignore[attr-defined]
        return f"torch.{function.attr}"  # type: ignore[attr-defined]
    return ""
