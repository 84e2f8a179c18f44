"""``make chaos``: proves that nothing is lost: small real searches, during which at random moments something breaks.

A fleet of real processes (server, recorder, workers, submitter) in a home folder of its own; a plan made from a seed
says what breaks when; an audit says afterwards whether the stream, the log and the decisions are what they must be.
"""

from .plans import KINDS, Injection, RoundPlan, plan_round
from .rounds import RoundResult, run_rounds

__all__ = ["KINDS", "Injection", "RoundPlan", "RoundResult", "plan_round", "run_rounds"]
