"""What is known: corpus, retrieval, skills."""

from .diversity import Winner, diverse
from .documents import Document, corpus
from .lessons import Effect, Failure, Trial, best_trials, failures, tunable_effects
from .library import Library, open_library
from .retrieval import Hit, Query, constraints, retrieve, search
from .shipped_skills import shipped_skills
from .similarity import ProblemFeatures, features_of_problem, features_of_skill, relevant_skills, similarity, sizes_of
from .skills import distill, with_lessons
from .structure import Likeness, likeness, structure_of
