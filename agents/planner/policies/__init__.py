"""Selection policies, one per file. Adding one means adding a file and naming it here."""

from collections.abc import Mapping

from .base import Choice, Policy, draft_count
from .greedy import Greedy

POLICIES: Mapping[str, type[Policy]] = {Greedy.name: Greedy}
"""Policies by name."""

__all__ = ["POLICIES", "Choice", "Greedy", "Policy", "draft_count"]
