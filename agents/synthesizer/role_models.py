"""The part of ``--model`` that names models of roles: ``analyst=NAME,planner=NAME``, beside those of the authors."""

from collections.abc import Sequence

from ...schemas import AuthorShare, InputError, RoleModel
from .backend import BACKENDS
from .model.settings import check_url

SUB_AGENTS = ("deep_search", "context_memory")
"""Sub-agents of authors that ask models; without a model there is none."""
MODEL_ROLES = ("analyst", "planner", "distiller", *SUB_AGENTS)
"""Roles of the ring that may ask a model, their rules being the fallback; and the sub-agents."""

_VENDORS = tuple(name for name, entry in BACKENDS.items() if entry.takes_model)


def split_models(text: str) -> tuple[str, dict[str, str]]:
    """The authors' part of ``text``, and the roles' models by role.

    Raises:
        InputError: a role is named twice, or without a model.
    """
    authors, roles = list[str](), dict[str, str]()
    for part in text.split(","):
        name, equals, model = (piece.strip() for piece in part.partition("="))
        if name not in MODEL_ROLES or not equals:
            authors.append(part)
            continue
        if not model:
            raise InputError(f"model {part.strip()!r}: write {name}=NAME")
        if name in roles:
            raise InputError(f"model: {name} is named twice; it has one model")
        roles[name] = model
    return ",".join(part for part in authors if part.strip()), roles


def parse_role_models(text: str, authors: Sequence[AuthorShare], base_url: str = "") -> tuple[RoleModel, ...]:
    """Roles that ask a model, in the ring's order.

    A name's vendor stands before it (``openai:NAME``), or is that of the only author who asks a model, or follows from
    the name: ``claude…`` is Anthropic's, whatever else is asked over OpenAI's format.

    Args:
        text: Of ``--model``.
        authors: Of the session.
        base_url: Of the session's server: for roles that ask ``openai``, or ``anthropic`` where nobody asks ``openai``.

    Raises:
        InputError: a role is named twice, or without a model.
    """
    _, models = split_models(text)
    if models and base_url:
        check_url(base_url)
    asking = [author.name for author in authors if BACKENDS[author.name].takes_model]
    named = {role: _vendor(models[role], asking) for role in MODEL_ROLES if role in models}
    vendors = {vendor for vendor, _ in named.values()} | set(asking)
    served = min(vendors, key=lambda vendor: vendor != "openai", default="")
    return tuple(
        RoleModel(role=role, backend=vendor, model=model, base_url=base_url if vendor == served else "")
        for role, (vendor, model) in named.items()
    )


def _vendor(model: str, asking: Sequence[str]) -> tuple[str, str]:
    vendor, colon, name = model.partition(":")
    if colon and vendor in _VENDORS and name:
        return vendor, name
    if len(asking) == 1:
        return asking[0], model
    return ("anthropic" if model.startswith("claude") else "openai"), model
