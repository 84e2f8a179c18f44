"""What is known: corpus, retrieval, skills."""

from .diversity import Winner, diverse
from .documents import Document, corpus
from .lessons import Effect, Failure, Trial, best_trials, failures, tunable_effects
from .retrieval import Query, constraints, retrieve
from .similarity import Traits, relevant_skills, similarity, sizes_of, traits_of_problem, traits_of_skill
from .skills import distill
from .structure import Likeness, likeness, structure_of

__all__ = [
    "Document",
    "Effect",
    "Failure",
    "Likeness",
    "Query",
    "Traits",
    "Trial",
    "Winner",
    "best_trials",
    "constraints",
    "corpus",
    "distill",
    "diverse",
    "failures",
    "likeness",
    "relevant_skills",
    "retrieve",
    "similarity",
    "sizes_of",
    "structure_of",
    "traits_of_problem",
    "traits_of_skill",
    "tunable_effects",
]
