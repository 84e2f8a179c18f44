"""What is known: corpus, retrieval, skills."""

from .documents import Document, corpus
from .lessons import Effect, Failure, Trial, best_trials, failures, knob_effects
from .retrieval import Query, constraints, retrieve
from .similarity import Traits, relevant_skills, similarity, sizes_of, traits_of_problem, traits_of_skill
from .skills import distill

__all__ = [
    "Document",
    "Effect",
    "Failure",
    "Query",
    "Traits",
    "Trial",
    "best_trials",
    "constraints",
    "corpus",
    "distill",
    "failures",
    "knob_effects",
    "relevant_skills",
    "retrieve",
    "similarity",
    "sizes_of",
    "traits_of_problem",
    "traits_of_skill",
]
