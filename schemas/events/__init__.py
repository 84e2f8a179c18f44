"""Every event that can be said, one family per file. Adding one means adding a file and naming it here."""

from .author import GENERATOR, USER_NAMES, AuthorBenched, AuthorShare, user_name, user_names
from .base import Event
from .baseline import BaselinesMeasured
from .candidate import CandidateProposed, Config, SynthesisFailed
from .check import CandidateChecked, CheckRequested
from .choice import ChoiceMade, ChoicesOffered, NodeChoice
from .compilation import CandidateCompiled, CompilationFailed
from .diagnosis import NodeDiagnosed
from .knowledge import KnowledgeQuery, KnowledgeRetrieved, RetrievedDocument
from .model import ModelCalled
from .origin import Origin
from .plan import ConfirmationPlanned, Intent, MemoryOperator, NodePlanned
from .profile import CandidateProfiled, ProfilingFailed
from .role import RoleDecided, RoleModel
from .seed import SeedKernel
from .session import SessionOpened
from .session_end import DEADLINE, FINISHED, IDLE, REFERENCE_DIED, SessionClosed, StopRequested
from .skill import Skill, SkillDistilled
from .task import (
    OUTSIDE,
    ClaimRequested,
    TaskClaimed,
    TaskExpired,
    TaskOpened,
    TaskRefused,
    TaskReleased,
    TaskSubmitted,
)
from .tool import ToolCalled
from .verification import CandidateVerified, VerificationFailed

EVENTS: dict[str, type[Event]] = {str(kind.__struct_config__.tag): kind for kind in Event.__subclasses__()}
"""Event types by tag: those that are imported above."""

__all__ = [
    "DEADLINE",
    "EVENTS",
    "FINISHED",
    "GENERATOR",
    "IDLE",
    "OUTSIDE",
    "REFERENCE_DIED",
    "USER_NAMES",
    "AuthorBenched",
    "AuthorShare",
    "BaselinesMeasured",
    "CandidateChecked",
    "CandidateCompiled",
    "CandidateProfiled",
    "CandidateProposed",
    "CandidateVerified",
    "CheckRequested",
    "ChoiceMade",
    "ChoicesOffered",
    "ClaimRequested",
    "CompilationFailed",
    "Config",
    "ConfirmationPlanned",
    "Event",
    "Intent",
    "KnowledgeQuery",
    "KnowledgeRetrieved",
    "MemoryOperator",
    "ModelCalled",
    "NodeChoice",
    "NodeDiagnosed",
    "NodePlanned",
    "Origin",
    "ProfilingFailed",
    "RetrievedDocument",
    "RoleDecided",
    "RoleModel",
    "SeedKernel",
    "SessionClosed",
    "SessionOpened",
    "Skill",
    "SkillDistilled",
    "StopRequested",
    "SynthesisFailed",
    "TaskClaimed",
    "TaskExpired",
    "TaskOpened",
    "TaskRefused",
    "TaskReleased",
    "TaskSubmitted",
    "ToolCalled",
    "VerificationFailed",
    "user_name",
    "user_names",
]
