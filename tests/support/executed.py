"""The module that a problem's text makes, executed in this process."""

import types


def module_of(source: str) -> types.ModuleType:
    """Execute ``source``, which is a test's own."""
    module = types.ModuleType("problem")
    exec(compile(source, "problem.py", "exec"), module.__dict__)
    return module
