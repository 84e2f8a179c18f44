"""Writes the ``ModelNew`` of a candidate, with the names and kinds of the parameters and buffers of ``Model``."""

import keyword

from ...schemas import InputFact, Items, Node, ProblemFacts

_REGISTER = '''def _register(module, path, shape, dtype, role, same=()):
    """A parameter or buffer under its qualified name and those in ``same``; its value is loaded later."""
    value = torch.zeros(shape, dtype=dtype)
    if role == "parameter":
        value = torch.nn.Parameter(value, requires_grad=dtype.is_floating_point or dtype.is_complex)
    for path in (path, *same):
        owner, (*parents, name) = module, path.split(".")
        for parent in parents:
            owner = owner._modules.setdefault(parent, torch.nn.Module())
        if role == "parameter":
            owner.register_parameter(name, value)
        else:
            owner.register_buffer(name, value, persistent=role == "buffer")
'''


_FEW = 4
"""So many parameters and buffers are read as everybody does."""


def reads(facts: ProblemFacts, params: list[Node], names: list[str]) -> tuple[list[str], list[str]]:
    """Statements of ``forward`` that give parameters and buffers their ``names``, and the function they call, if any.

    ``Module.__getattr__`` takes a microsecond for each part of a qualified name: 2.2 ms of a call of EfficientNet (243
    tensors), which takes 4.2 without its kernels; this takes 0.07. What is no parameter any more, as under a
    parametrization, is read as ever.
    """
    if len(params) <= _FEW:
        return [f"{name} = {attribute(node.target)}" for name, node in zip(names, params, strict=True)], []
    roles = _facts_of(facts, params)
    owners = {"": "self"}
    lines: list[str] = []
    values: list[str] = []
    for node in params:
        *parents, leaf = node.target.split(".")
        for depth in range(len(parents)):
            path = ".".join(parents[: depth + 1])
            if path not in owners:
                above = owners[".".join(parents[:depth])]
                owners[path] = f"owner{len(owners)}"
                lines.append(f"{owners[path]} = {above}._modules[{parents[depth]!r}]")
        kind = "_parameters" if _role(roles[node.target]) == "parameter" else "_buffers"
        values.append(f"{owners['.'.join(parents)]}.{kind}[{leaf!r}]")
    function = [
        "def _read(self):",
        '    """Parameters and buffers, past ``Module.__getattr__``, which takes a microsecond for each part."""',
        "    try:",
        *(f"        {line}" for line in lines),
        f"        return {', '.join(values)}",
        "    except (KeyError, AttributeError):",
        f"        return {', '.join(attribute(node.target) for node in params)}",
        "",
        "",
    ]
    return [f"{', '.join(names)} = _read(self)"], function


def module_lines(facts: ProblemFacts, params: list[Node], methods: list[str]) -> list[str]:
    """``_register`` and ``ModelNew``, with ``methods`` behind its constructor."""
    same = {name: node.target for node in params for name in _aliases(node)}
    lines = [
        *_REGISTER.splitlines(),
        "",
        "",
        "class ModelNew(torch.nn.Module):",
        '    """Drop-in for ``Model``: same parameter names; load its ``state_dict``."""',
        "",
        "    def __init__(self, *args, **kwargs):",
        "        super().__init__()",
    ]
    aliases = {node.target: _aliases(node) for node in params}
    for path, fact in _facts_of(facts, params).items():
        if path in same:
            continue
        more = f", {aliases[path]!r}" if aliases.get(path) else ""
        described = f"{path!r}, {tuple(fact.shape)!r}, torch.{fact.dtype}, {_role(fact)!r}"
        lines.append(f"        _register(self, {described}{more})")
    return [*lines, *methods]


def _facts_of(facts: ProblemFacts, params: list[Node]) -> dict[str, InputFact]:
    parameters = dict(facts.parameters)
    attributes = {fact.name for fact in facts.state if fact.kind == "attribute"}
    for node in params:
        meta = node.values[0]
        sizes = tuple(size for size in meta.shape if isinstance(size, int))
        # An attribute that is written like a buffer is one here: it moves with the module.
        role = "buffer_not_persistent" if node.target in attributes else ""
        fact = InputFact(name=node.target, kind="tensor", shape=sizes, dtype=meta.dtype, role=role)
        parameters.setdefault(node.target, fact)
    return parameters


def _role(fact: InputFact) -> str:
    """As problem validation found it; older events do not say, and only floats are parameters for certain."""
    return fact.role or ("parameter" if fact.dtype.startswith(("float", "bfloat")) else "buffer")


def _aliases(node: Node) -> tuple[str, ...]:
    """Other names of the same tensor."""
    return tuple(map(str, node.literal.items)) if isinstance(node.literal, Items) else ()


def attribute(path: str) -> str:
    """Python text that reads a qualified name from ``self``: names inside ``nn.Sequential`` are numbers."""
    text = "self"
    for part in path.split("."):
        text = f"{text}.{part}" if part.isidentifier() and not keyword.iskeyword(part) else f"getattr({text}, {part!r})"
    return text
