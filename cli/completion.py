"""What the shell offers on Tab: pools, sessions, problem files. Quick and silent; nothing to offer is an answer too."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path


def _suggestions(file: str, name: str) -> Callable[[str], list[str]]:
    """The function ``name`` of :mod:`.suggestions`: its file is imported on Tab, and not for every command."""

    def complete(incomplete: str) -> list[str]:
        suggest: Callable[[str], list[str]] = getattr(import_module(f".suggestions.{file}", __package__), name)
        return suggest(incomplete)

    return complete


pool_names = _suggestions("pools", "pool_names")
session_ids = _suggestions("recorded", "session_ids")
question_names = _suggestions("recorded", "question_names")
open_sessions = _suggestions("tasks", "open_sessions")
task_names = _suggestions("tasks", "task_names")
free_tasks = _suggestions("tasks", "free_tasks")
held_leases = _suggestions("tasks", "held_leases")


def python_files(incomplete: str) -> list[str]:
    """Python files, and folders beside them, whose path begins with ``incomplete``.

    Nothing where there are only folders: then shells complete as they always do, which goes on into the folder.
    """
    folder, slash, stem = incomplete.rpartition("/")
    start = folder + slash
    try:
        paths = sorted(path for path in Path(start or ".").iterdir() if path.name.startswith(stem))
    except OSError:
        return []
    files = [f"{start}{path.name}" for path in paths if path.suffix == ".py"]
    folders = [f"{start}{path.name}/" for path in paths if path.is_dir() and path.name[0] not in "._"]
    return files and files + folders
