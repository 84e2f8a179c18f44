"""How a role of the ring asks a model: what is asked, how the answer is read, what holds when there is none."""

from .consultation import ROUNDS, AdvisedAgent, Asked, Consultation, Question, Reading, Unusable, consult, settled
from .json_answer import NUMBER, TEXT, json_object, json_objects, list_of, name_of, object_of
