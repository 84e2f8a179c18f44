"""A backend that asks a language model: the same for every vendor but for its SDK and its format."""

import asyncio
import contextlib
import threading
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ....schemas import InputError, ModelCalled, SynthesisFailed
from ..backend import Answer, Backend, Request
from .prices import FILE, Price, price_of
from .settings import Settings, VendorFacts, check_model
from .surroundings import Surroundings

if TYPE_CHECKING:
    from .authoring import Authoring
    from .client import ModelClient
    from .wire import Wire


_READY: set[str] = set()
"""Vendors whose library has read an answer in this process."""
_REHEARSING = threading.Lock()


class ModelBackend(Backend, ABC):
    """Asks a model for each candidate. The SDK and AutoGen are imported with the first request, in a thread."""

    name: str
    vendor: VendorFacts
    library: str
    """Module of the vendor's SDK."""
    client: str
    """Its client's class."""
    rehearsed_answer: str
    """The stream of a whole answer in its format, which calls a tool: what the SDK reads before any model's."""

    def __init__(
        self, settings: Settings | None = None, *, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    ) -> None:
        """``settings`` are read from the environment, with each request, if they are not given."""
        self._settings = settings
        self._sleep = sleep
        self._sdks: dict[tuple[object, ...], Any] = {}

    @abstractmethod
    def open_wire(self, sdk: Any, model: str, settings: Settings) -> "Wire":
        """One conversation over it."""

    def check(self, model: str = "", base_url: str = "") -> None:
        """Find out whether a model can be asked at all: is there a key, are the settings usable?

        Raises:
            InputError: no key, an address that is none, or a model's name that is none.
        """
        self.settings_for(base_url)
        check_model(model, self.vendor)

    def check_price(self, model: str, base_url: str, home: Path) -> None:
        """Find out whether a limit of money can be kept.

        Raises:
            InputError: nobody knows what the model costs; the sentence says where to write it down.
        """
        name, url = model or self.vendor.model, self.settings_for(base_url).url
        if price_of(name, url, home) is None:
            raise InputError(
                f"--max-cost needs to know what {name!r} costs: write it into {home / FILE} "
                f'([models], "{name}" = {{ input = 2.0, output = 10.0 }} in US dollars for a million tokens), '
                "or use --max-tokens"
            )

    def check_room(self, request: Request, home: Path) -> None:
        """Find out whether the first prompt for ``request`` has room for its problem.

        Raises:
            InputError: it has not.
        """
        from ....knowledge import open_library
        from .prompt import compose

        model, settings = request.model or self.vendor.model, self.settings_for(request.base_url)
        price = price_of(model, settings.url, home)
        library = open_library(request.pool, request.hardware.isa, home)
        try:
            compose(request, library, context=price.context if price else 0, answer=settings.max_tokens)
        except InputError as error:
            raise InputError(f"author {self.name} cannot be asked ({model}): {error}") from None

    async def synthesize(self, request: Request) -> Answer:
        """Ask for the candidate of ``request`` without tools."""
        return await self.converse(request, Surroundings())

    async def converse(self, request: Request, surroundings: Surroundings) -> Answer:
        """Ask for the candidate of ``request``; every try, look-up and call of a tool is in the answer's ``calls``."""
        model = request.model or self.vendor.model
        try:
            self.check(model, request.base_url)
            settings = self.settings_for(request.base_url)
            price = await asyncio.to_thread(price_of, model, settings.url, surroundings.home)
        except InputError as error:
            return Answer(failed=SynthesisFailed(backend=self.name, reason=str(error)))
        await self._get_ready()
        return await (await asyncio.to_thread(self._authoring, request, model, settings, price, surroundings)).answer()

    def _authoring(
        self, request: Request, model: str, settings: Settings, price: Price | None, surroundings: Surroundings
    ) -> "Authoring":
        """Opens connections, documents and tools: too much for the event loop."""
        from .authoring import Authoring

        wire = self.open_wire(self._sdk(settings), model, settings)
        return Authoring(wire, model, settings, price, request, surroundings, self._sleep)

    async def open_client(
        self,
        model: str,
        base_url: str,
        home: Path,
        record: Callable[[ModelCalled], None],
        *,
        admit: Callable[[Price | None, int, int], AbstractAsyncContextManager[int]],
        adjust: Callable[[Settings], Settings] = lambda settings: settings,
        jitter: float = 0.5,
    ) -> "ModelClient":
        """A conversation's client for who is no author; ``adjust`` changes the limits of its requests.

        Raises:
            InputError: there is no key, or something cannot be used.
        """
        self.check(model, base_url)
        settings = adjust(self.settings_for(base_url))
        price = await asyncio.to_thread(price_of, model, settings.url, home)
        await self._get_ready()
        return await asyncio.to_thread(self._client, model, settings, price, record, admit, jitter)

    def _client(
        self,
        model: str,
        settings: Settings,
        price: Price | None,
        record: Callable[[ModelCalled], None],
        admit: Callable[[Price | None, int, int], AbstractAsyncContextManager[int]],
        jitter: float,
    ) -> "ModelClient":
        from .client import ModelClient

        wire = self.open_wire(self._sdk(settings), model, settings)
        return ModelClient(
            *(wire, model, settings, record),
            admit=partial(admit, price),
            price=price,
            sleep=self._sleep,
            jitter=jitter,
        )

    async def open_sdk(self, settings: Settings) -> Any:
        """The SDK's client, imported and made: on a loaded machine that takes longer than a server's answer."""
        await self.import_library()
        return await asyncio.to_thread(self._sdk, settings)

    async def list_models(self, sdk: Any) -> list[str]:
        """Names of the models that the server has; raises what the SDK raises."""
        return [model.id async for model in sdk.models.list() if isinstance(model.id, str) and model.id.isprintable()]

    async def import_library(self) -> ModuleType:
        """The vendor's SDK: seconds of imports must not stop the event loop of every other agent."""
        return await asyncio.to_thread(_import_libraries, self.library)

    async def _get_ready(self) -> None:
        """Import and build, once in a process, all that a request and its answer need."""
        await self.import_library()
        if self.name not in _READY:
            await asyncio.to_thread(self._rehearse)

    def _rehearse(self) -> None:
        from .faults import ModelFault
        from .rehearsal import rehearse

        with _REHEARSING:
            if self.name in _READY:
                return
            _READY.add(self.name)
            # Nothing depends on it: without a rehearsal the first request takes the event loop's time.
            with contextlib.suppress(OSError, ModelFault):
                asyncio.run(rehearse(self.vendor, self.rehearsed_answer, self._on_loopback, self.open_wire))

    def _on_loopback(self, settings: Settings) -> Any:
        """No proxy of the environment stands between."""
        return self._open_sdk(settings, trust_env=False)

    def settings_for(self, base_url: str) -> Settings:
        """Key, address and limits, for a session that names ``base_url`` or none.

        Raises:
            InputError: there is no key, or something cannot be used.
        """
        return self._settings or Settings.from_environment(self.vendor, base_url)

    def _sdk(self, settings: Settings) -> Any:
        """The vendor's client, without retries: those are ours, each try is an event, and it would hide all but one."""
        key = (settings.url, settings.key, settings.withheld)
        if key not in self._sdks:
            self._sdks[key] = self._open_sdk(settings)
        return self._sdks[key]

    def _open_sdk(self, settings: Settings, **http: Any) -> Any:
        library = import_module(self.library)
        return getattr(library, self.client)(
            # A server that needs no key is sent a word in its place.
            api_key=settings.key or "none",
            base_url=settings.url,
            timeout=settings.timeout_s,
            max_retries=0,
            default_headers=_without(settings.withheld, library),
            # A redirect would take the key, and what is asked, to an address that nobody named.
            http_client=library.DefaultAsyncHttpxClient(follow_redirects=False, **http),
        )

    async def close(self) -> None:
        """Close the connections."""
        for sdk in self._sdks.values():
            await sdk.close()
        self._sdks.clear()


def _without(headers: Sequence[str], library: ModuleType) -> dict[str, Any]:
    """In place of what a library takes from the environment; without any word of authorization it asks nobody."""
    return {name: "Bearer none" if name.lower() == "authorization" else library.Omit() for name in headers}


def _import_libraries(library: str) -> ModuleType:
    import_module("autogen_agentchat.agents")
    import_module(".authoring", __package__)
    return import_module(library)
