"""Whether a vendor's server answers, and which models it has: asked without a completion, so it costs nothing."""

import asyncio
import time

from ....schemas import InputError, Schema
from .backend import ModelBackend
from .faults import classify
from .settings import public_url

SECONDS = 8.0
"""Most that the server's answer may take: what is imported and made before the question does not count."""
MOST_MODELS = 500


class Reachability(Schema, frozen=True, kw_only=True):
    """How an author that asks a model stands here."""

    author: str
    model: str
    """Asked where the session names none."""
    url: str = ""
    """Of its server, without credentials."""
    problem: str = ""
    """Why it cannot be asked; empty if it can, as far as that was looked at."""
    is_reachable: bool | None = None
    """Whether the server answered; None if it was not asked."""
    milliseconds: float | None = None
    """Until it answered."""
    models: tuple[str, ...] = ()
    """What it has, sorted."""


async def reachability(backend: ModelBackend, base_url: str = "", *, ask: bool = True) -> Reachability:
    """How ``backend`` stands, with its key, at ``base_url`` or where the environment says.

    Args:
        backend: A vendor's.
        base_url: Of a server that speaks its format.
        ask: Whether the server is asked; else only key and address are looked at.
    """
    vendor = backend.vendor
    try:
        settings = backend.settings_for(base_url)
    except InputError as error:
        return Reachability(author=vendor.name, model=vendor.model, problem=str(error))
    url = public_url(settings.url)
    if not ask:
        return Reachability(author=vendor.name, model=vendor.model, url=url)
    sdk = await backend.open_sdk(settings)
    began = time.perf_counter()
    try:
        async with asyncio.timeout(SECONDS):
            models = await backend.list_models(sdk)
    except TimeoutError:
        problem = f"no answer from {url} within {SECONDS:g} s"
    except Exception as error:
        fault = classify(error, await backend.import_library(), vendor.model, settings)
        if fault is None:
            raise
        problem = fault.message
    else:
        return Reachability(
            author=vendor.name,
            model=vendor.model,
            url=url,
            is_reachable=True,
            milliseconds=round((time.perf_counter() - began) * 1000, 1),
            models=tuple(sorted(models)[:MOST_MODELS]),
        )
    return Reachability(author=vendor.name, model=vendor.model, url=url, problem=problem, is_reachable=False)
