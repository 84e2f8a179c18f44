"""What models cost: a dated table that ships, and the user's own before it."""

import math
import tomllib
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from urllib.parse import urlsplit

from ....schemas import InputError, Schema

FILE = "prices.toml"
"""In this folder, and in the home."""
_NUMBERS = ("input", "output", "read", "write", "context")


class Price(Schema, frozen=True, kw_only=True):
    """Of one model, US dollars for a million tokens."""

    input: float
    output: float
    read: float
    """Of tokens that a cache gave."""
    write: float
    """Of tokens that a cache took."""
    context: int = 0
    """Longest request with its answer, tokens; 0 if it is not known."""
    date: str = ""
    """When it was looked up."""

    def of(self, *, input_tokens: int, output_tokens: int, read: int = 0, write: int = 0) -> float:
        """US dollars for so many tokens."""
        tokens = ((input_tokens, self.input), (output_tokens, self.output), (read, self.read), (write, self.write))
        return sum(count * price for count, price in tokens) / 1e6


class PriceTable(Schema, frozen=True, kw_only=True):
    """Prices by the beginnings of models' names."""

    prices: dict[str, Price] = {}

    def find(self, model: str) -> Price | None:
        """The price of ``model``: of the longest name that it begins with; None if there is none."""
        names = [name for name in self.prices if model == name or _continues(model, name)]
        return self.prices[max(names, key=len)] if names else None


def price_table(home: Path | None = None) -> PriceTable:
    """The table that ships, with the one of ``home`` laid over it.

    Raises:
        InputError: the file of ``home`` cannot be read or has something else in it than prices; it is named.
    """
    shipped = resources.files(__package__).joinpath(FILE).read_text(encoding="utf-8")
    prices = _read(shipped, FILE)
    if home is not None and (path := home / FILE).exists():
        try:
            prices |= _read(path.read_text(encoding="utf-8"), str(path))
        except OSError as error:
            raise InputError(f"cannot read {path}: {error.strerror}") from error
    return PriceTable(prices=prices)


def price_of(model: str, url: str, home: Path | None = None) -> Price | None:
    """What ``model`` costs at ``url``: nothing on this machine unless the table says so; None if it is not known.

    Raises:
        InputError: the table of ``home`` cannot be used.
    """
    price = price_table(home).find(model)
    if price is None and urlsplit(url).hostname in ("localhost", "127.0.0.1", "::1"):
        return Price(input=0.0, output=0.0, read=0.0, write=0.0)
    return price


def _continues(model: str, name: str) -> bool:
    """``gpt-5.4-2026`` continues ``gpt-5.4``, ``gpt-5.45`` does not."""
    return model.startswith(name) and not model[len(name)].isalnum() and model[len(name)] != "."


def _read(text: str, where: str) -> dict[str, Price]:
    try:
        data = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{where} is no TOML: {error}") from error
    models = data.get("models", {})
    if not isinstance(models, dict):
        raise InputError(f'{where}: [models] holds prices by model, as in "NAME" = {{ input = 2.0, output = 10.0 }}')
    return {name: _price(name, entry, str(data.get("date", "")), where) for name, entry in models.items()}


def _price(name: str, entry: object, date: str, where: str) -> Price:
    if not isinstance(entry, Mapping) or not {"input", "output"} <= set(entry) or not set(entry) <= set(_NUMBERS):
        raise InputError(f"{where}: {name!r} needs input and output, and may have read, write and context")
    for field, value in entry.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
            raise InputError(f"{where}: {field} of {name!r} is {value!r}: give a number from 0")
    # Without a price of its own the cache is no cheaper than the rest, so that no limit is passed.
    read, write = entry.get("read", entry["input"]), entry.get("write", entry["input"])
    return Price(
        input=entry["input"],
        output=entry["output"],
        read=read,
        write=write,
        context=int(entry.get("context", 0)),
        date=date,
    )
