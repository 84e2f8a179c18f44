"""Part of every finished file: the two sources that it carries, as modules of their own."""

import functools
import linecache
import sys
import threading
import types
from typing import Any


def embedded(parent: str, file: str, name: str, text: str) -> types.ModuleType:
    """Execute ``text`` as the module ``<parent>.<name>``.

    The name lets pickle find its classes in another process: importing it imports ``parent``, which makes it again.
    Tracebacks and ``inspect`` see its lines.
    """
    module = types.ModuleType(f"{parent}.{name}")
    module.__file__ = f"<{name} in {file}>"
    linecache.cache[module.__file__] = (len(text), None, text.splitlines(keepends=True), module.__file__)
    sys.modules[module.__name__] = module
    try:
        exec(compile(text, module.__file__, "exec"), module.__dict__)
    except BaseException:
        del sys.modules[module.__name__]
        raise
    return module


class Later:
    """The candidate's module, executed when it is first needed: it may compile, or need a device."""

    def __init__(self, parent: str, file: str, name: str, text: str) -> None:
        self._make = functools.partial(embedded, parent, file, name, text)
        self._guard = threading.RLock()
        self._module: types.ModuleType | None = None

    def module(self) -> types.ModuleType:
        """The module; whoever asks while another thread makes it waits."""
        if self._module is None:
            with self._guard:
                if self._module is None:
                    self._module = self._make()
        return self._module

    def made_anew(self) -> types.ModuleType:
        """The module, executed once more."""
        with self._guard:
            self._module = None
            return self.module()

    @property
    def is_made(self) -> bool:
        """Whether it has been executed: whether a call was for the kernel."""
        return self._module is not None

    def refusal(self) -> Any:
        """What the candidate raises where it cannot take its inputs; an empty tuple, which catches nothing, if none."""
        exception = getattr(self.module(), "NotSupported", ())
        return exception if isinstance(exception, type) and issubclass(exception, NotImplementedError) else ()
