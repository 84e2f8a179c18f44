"""What is known: corpus, retrieval, skills."""

from .diversity import Winner, diverse
from .documents import Document, corpus
from .lessons import Effect, Failure, Trial, best_trials, failures, tunable_effects
from .library import Library, open_library
from .retrieval import Hit, Query, constraints, retrieve, search
from .similarity import ProblemFeatures, features_of_problem, features_of_skill, relevant_skills, similarity, sizes_of
from .skills import distill, with_lessons
from .structure import Likeness, likeness, structure_of

__all__ = [
    "Document",
    "Effect",
    "Failure",
    "Hit",
    "Library",
    "Likeness",
    "ProblemFeatures",
    "Query",
    "Trial",
    "Winner",
    "best_trials",
    "constraints",
    "corpus",
    "distill",
    "diverse",
    "failures",
    "features_of_problem",
    "features_of_skill",
    "likeness",
    "open_library",
    "relevant_skills",
    "retrieve",
    "search",
    "similarity",
    "sizes_of",
    "structure_of",
    "tunable_effects",
    "with_lessons",
]
