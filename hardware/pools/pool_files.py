"""Reads pool files: the ones that ship, and the user's own in ``home/"pools"``."""

import difflib
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path

import msgspec

from ...schemas import Pool, PoolError
from ...schemas.pool import BASELINES
from ..languages import LANGUAGES
from ..platforms import PLATFORMS

SHIPPED = Path(__file__).parent
_NAME = re.compile(r"[a-z0-9-]+")
_FIELD = re.compile(r"\$\.(\w+)")


def load_pools(home: Path) -> dict[str, Pool]:
    """Every pool by name, sorted; a user's file takes the place of a shipped one of the same name.

    Raises:
        PoolError: a file cannot be read or used; the message names the file, the key and the value.
    """
    files = {path.stem: path for folder in (SHIPPED, home / "pools") for path in sorted(folder.glob("*.toml"))}
    return {name: read_pool(path) for name, path in sorted(files.items())}


def find_pool(name: str, home: Path) -> Pool:
    """The pool called ``name``.

    Raises:
        PoolError: there is none; the message names the nearest and lists them all. Or a pool file is malformed.
    """
    pools = load_pools(home)
    if name in pools:
        return pools[name]
    if name.endswith(".toml") or "/" in name:
        own = home / "pools" / Path(name).name
        raise PoolError(
            f"pool {name!r} is a file's path: copy the file to {own.with_suffix('.toml')}, "
            f"and name it --pool {own.stem}"
        )
    near = difflib.get_close_matches(name, pools, n=1, cutoff=0.5)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    own = home / "pools" / f"{name}.toml"
    raise PoolError(f"no pool is called {name!r}{hint}; there is {', '.join(pools)}, and {own} would add it")


def read_pool(path: Path) -> Pool:
    """The pool that the TOML file ``path`` describes.

    Raises:
        PoolError: it cannot be read or used; the message names the file, the key and the value.
    """
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise PoolError(f"cannot read the pool file {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise PoolError(f"the pool file {path} is not valid TOML: {error}") from error
    _refuse_unknown_keys(data, path)
    try:
        pool = msgspec.convert({"name": path.stem, **data}, Pool)
    except msgspec.ValidationError as error:
        raise PoolError(f"the pool file {path} is wrong{_where(error, data)}") from error
    _check_values(pool, path)
    return pool


def _refuse_unknown_keys(data: Mapping[str, object], path: Path) -> None:
    for key, value in data.items():
        if key not in Pool.__struct_fields__:
            near = difflib.get_close_matches(key, Pool.__struct_fields__, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; known are {', '.join(Pool.__struct_fields__)}"
            raise PoolError(f"the pool file {path} has an unknown key {key!r} = {value!r}{hint}")


def _where(error: msgspec.ValidationError, data: Mapping[str, object]) -> str:
    message = str(error).partition(" - at ")[0]
    field = _FIELD.search(str(error))
    return f": {message}" if field is None else f": {field[1]} = {data.get(field[1])!r}: {message}"


def _check_values(pool: Pool, path: Path) -> None:
    def check(fine: bool, key: str, rule: str) -> None:
        if not fine:
            raise PoolError(f"the pool file {path} is wrong: {key} = {getattr(pool, key)!r}: {rule}")

    check(bool(_NAME.fullmatch(pool.name)), "name", "use lower-case letters, digits and '-'")
    check(pool.name == path.stem, "name", f"it must be the file's name, {path.stem!r}")
    check(pool.platform in PLATFORMS, "platform", f"there is {', '.join(sorted(PLATFORMS))}")
    languages = sorted(LANGUAGES)
    check(
        bool(pool.languages) and set(pool.languages) <= set(languages), "languages", f"there is {', '.join(languages)}"
    )
    message = f"of {', '.join(BASELINES)}, eager at least"
    check("eager" in pool.baselines and set(pool.baselines) <= set(BASELINES), "baselines", message)
    check(pool.threads >= 0, "threads", "0 (all cores) or more")
    check(pool.candidate_seconds > 0, "candidate_seconds", "it must be above 0")
    check(all(index >= 0 for index in pool.devices), "devices", "indices from 0")
    check(bool(re.fullmatch(r"(sm_\d+[af]?)?", pool.target)), "target", "as sm_90, or empty")
    check(pool.candidate_memory_bytes >= 0, "candidate_memory_bytes", "0 (half of the memory) or more")
