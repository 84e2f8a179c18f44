"""The option ``--author``: one author, or several with their shares of the nodes (``generator,anthropic:2,openai:1``).

One place spells it: the command line, the Python API, benchmarks, forks and resumed sessions read it here.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ...schemas import USER_NAMES, AuthorShare, InputError, RoleModel, SessionOpened, near_miss, user_name
from .backend import BACKEND_NAMES, BACKENDS, open_backend
from .model.backend import ModelBackend
from .model.settings import check_url, trust
from .role_models import MODEL_ROLES, split_models

if TYPE_CHECKING:
    from .model.reachable import Reachability

_WIRE_NAMES = {user: wire for wire, user in USER_NAMES.items()}
MOST_SHARES = 100

AUTHOR_NAMES = tuple(map(user_name, BACKEND_NAMES))
"""Authors that a search may name, as users call them."""


def parse_authors(text: str, model: str = "", base_url: str = "") -> tuple[AuthorShare, ...]:
    """The authors that ``text`` names, with what they ask.

    Args:
        text: ``anthropic``, or ``generator,anthropic:2,openai:1``: shares of the nodes, 1 where none is given.
        model: of the only author that asks a model, or ``anthropic=NAME,openai=NAME``; what it says of roles
            (:func:`.role_models.parse_role_models`) means nothing here.
        base_url: of the server that ``openai`` asks, or ``anthropic`` where there is no ``openai``.

    Raises:
        InputError: there is no such author, a share is no number from 1 to 100, or a model or an address fits none.
    """
    parts = text.split(",")
    if not any(part.strip() for part in parts):
        raise InputError(f"no author: choose {_choices()}")
    if not all(part.strip() for part in parts):
        raise InputError(f"authors {text!r}: a name is missing beside a comma; choose {_choices()}")
    shares = [_share(part) for part in parts]
    names = [name for name, _ in shares]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"author {user_name(name)!r} is named twice: give it one share, as in {user_name(name)}:2")
    for_authors, for_roles = split_models(model)
    models = _models(names, for_authors)
    # A server that only roles ask is theirs.
    urls = {} if for_roles and not any(BACKENDS[name].takes_model for name in names) else _urls(names, base_url)
    return tuple(
        AuthorShare(name=name, share=share, model=models.get(name, ""), base_url=urls.get(name, ""))
        for name, share in shares
    )


def spelled(authors: Sequence[AuthorShare]) -> str:
    """The authors in one line as events have it: ``anthropic``, or ``playbook:1,anthropic:2``."""
    if len(authors) == 1:
        return authors[0].name
    return ",".join(f"{author.name}:{author.share}" for author in authors)


def check_authors(authors: Sequence[AuthorShare], roles: Sequence[RoleModel] = ()) -> None:
    """Find out before a session opens, or is resumed, whether every author, and every role with a model, can work here.

    Addresses that the user named are trusted with the key of this process's environment from then on.

    Raises:
        InputError: one cannot; the sentence says what to do.
    """
    for author in authors:
        if author.base_url:
            trust(author.base_url)
        open_backend(author.name).check(author.model, author.base_url)
    for role in roles:
        if role.base_url:
            trust(role.base_url)
        try:
            open_backend(role.backend).check(role.model, role.base_url)
        except InputError as error:
            raise InputError(f"--model {role.role}={role.model}: {error}") from None


def check_prices(authors: Sequence[AuthorShare], home: Path, roles: Sequence[RoleModel] = ()) -> None:
    """Find out before a session opens whether a limit of money can be kept.

    Raises:
        InputError: nobody knows what a model costs.
    """
    asked = [(author.name, author.model, author.base_url) for author in authors]
    for name, model, base_url in [*asked, *((role.backend, role.model, role.base_url) for role in roles)]:
        backend = open_backend(name)
        if isinstance(backend, ModelBackend):
            backend.check_price(model, base_url, home)


async def model_authors(base_url: str = "", *, ask: bool = True) -> "list[Reachability]":
    """How every author that asks a model stands in this process; ``base_url`` is that of ``openai``.

    Raises:
        InputError: ``base_url`` is no address.
    """
    if base_url:
        parse_authors("openai", base_url=base_url)
        trust(base_url)
    statuses = []
    for name, entry in BACKENDS.items():
        if entry.takes_model:
            backend = open_backend(name)
            assert isinstance(backend, ModelBackend)
            # Named at run time: its errors are told by a library that takes seconds to import.
            from .model.reachable import reachability

            statuses.append(await reachability(backend, base_url if name == "openai" else "", ask=ask))
            await backend.close()
    return statuses


def authors_of(opened: SessionOpened) -> tuple[AuthorShare, ...]:
    """The authors of a session, of an older version as well."""
    return opened.authors or (AuthorShare(name=opened.synthesizer, model=opened.model, base_url=opened.base_url),)


def asks_a_model(text: str) -> bool:
    """Whether one of the authors that ``text`` names takes minutes or money for a candidate."""
    return any(name in BACKENDS and BACKENDS[name].asks_a_model for name in author_names(text))


def author_names(text: str) -> list[str]:
    """The authors that ``text`` names, as it spells them."""
    return [part.partition(":")[0].strip() for part in text.split(",") if part.strip()]


def author_count(text: str) -> int:
    """How many authors ``text`` names."""
    return len(author_names(text))


def _choices() -> str:
    return f"one of {', '.join(AUTHOR_NAMES)}, or several with shares as in generator,anthropic:2"


def _share(part: str) -> tuple[str, int]:
    name, colon, count = (piece.strip() for piece in part.partition(":"))
    wire = _WIRE_NAMES.get(name, name)
    if wire not in BACKENDS:
        raise InputError(f"unknown author {name!r}: {near_miss(name, AUTHOR_NAMES)}choose {_choices()}")
    if colon and not (count.isascii() and count.isdecimal() and 1 <= int(count) <= MOST_SHARES):
        raise InputError(f"author {part.strip()!r}: a share is a number from 1 to {MOST_SHARES}, as in {name}:2")
    return wire, int(count) if colon else 1


def _models(names: Sequence[str], model: str) -> dict[str, str]:
    """The model of each author that asks one."""
    asking = [name for name in names if BACKENDS[name].takes_model]
    if not model:
        return {}
    if "=" not in model:
        if len(asking) > 1:
            spelling = ",".join(f"{name}=NAME" for name in asking)
            raise InputError(f"model {model!r}: several authors ask one; write {spelling}")
        if not asking:
            raise InputError(
                f"model {model!r}: none of {_spelled_names(names)} asks a model; add --author anthropic or openai, or "
                f"write ROLE=NAME with one of {', '.join(MODEL_ROLES)}"
            )
        return dict.fromkeys(asking, model)
    pairs = [part.strip().partition("=") for part in model.split(",") if part.strip()]
    for name, equals, value in pairs:
        if name not in asking or not equals or not value:
            meant = "" if name in asking else near_miss(name, (*asking, *MODEL_ROLES))
            raise InputError(
                f"model {name + equals + value!r}: {meant}write AUTHOR=NAME with one of {_spelled_names(names)}, or "
                f"ROLE=NAME with one of {', '.join(MODEL_ROLES)}"
            )
    return {name: value for name, _, value in pairs}


def _spelled_names(names: Sequence[str]) -> str:
    """Names of authors for a message."""
    return ", ".join(map(user_name, names))


def _urls(names: Sequence[str], base_url: str) -> dict[str, str]:
    if not base_url:
        return {}
    check_url(base_url)  # before any message names it
    # A server of one's own most likely speaks OpenAI's format.
    asking = sorted((name for name in names if BACKENDS[name].takes_model), key=lambda name: name != "openai")
    if not asking:
        raise InputError(f"base URL {base_url!r}: none of {_spelled_names(names)} asks a server; add openai")
    return {asking[0]: base_url}
