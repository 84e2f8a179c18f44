"""A planner among agents that answer at once: no bus, no device."""

import given
from kernelswarm.agents.planner.machine import Decision, decide
from kernelswarm.agents.planner.state import PlannerState
from kernelswarm.schemas import ConfirmationPlanned, Event, NodePlanned, SessionClosed, Verdict


class Ring:
    """Plays the other agents: answers every plan with the next fitness, keeps every decision."""

    def __init__(self, **opened: object) -> None:
        self.state = PlannerState()
        self.decisions: list[Decision] = []
        self.inputs: list[tuple[Event, str]] = []
        self.tell(given.opened(**opened))

    def tell(self, event: Event, node: str = "") -> list[Decision]:
        self.inputs.append((event, node))
        decisions = decide(self.state, event, node)
        self.decisions += decisions
        return decisions

    def plans(self) -> list[tuple[str, NodePlanned]]:
        return [(d.node, d.event) for d in self.decisions if isinstance(d.event, NodePlanned)]

    def closed(self) -> SessionClosed | None:
        return next((d.event for d in self.decisions if isinstance(d.event, SessionClosed)), None)

    def run(self, fitness: "list[float]", confirm: float = 1.0) -> SessionClosed:
        """Answer until it closes; node i gets ``fitness[i % len]``, 0 meaning wrong; confirmations scale it."""
        answered = 0
        while self.closed() is None:
            assert answered < len(self.decisions), "the planner waits although nothing is under way"
            decision = self.decisions[answered]
            answered += 1
            number = int(decision.node[1:]) - 1 if decision.node else 0
            value = fitness[number % len(fitness)]
            match decision.event:
                case NodePlanned():
                    verdict = Verdict.correct if value else Verdict.wrong_numbers
                    self.tell(given.diagnosed(value, verdict), decision.node)
                case ConfirmationPlanned():
                    self.tell(given.diagnosed(value * confirm, confirmation=True), decision.node)
        closed = self.closed()
        assert closed is not None
        return closed
