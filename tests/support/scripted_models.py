"""Models that play their parts in a whole search: authors with tools, sub-agents, roles; what they say follows from
what they are asked."""

import json
from typing import Any

from model_server import Failed, Reply, Said

DRAFT = """import torch

def kernel(x, w):
    return torch.nn.functional.rms_norm(x, (x.shape[-1],), w, 1e-6)
# draft {number}
"""
BROKEN = "import torch\n\ndef kernel(x, w):\n    return torch.zeros_like(x)\n# draft {number}\n"
NATIVE = '''import ctypes
import torch

CPP_SOURCE = r"""
#include <cmath>
// draft {number}
extern "C" void norm(const float* x, const float* w, float* out, long rows, long cols) {{
  for (long r = 0; r < rows; r++) {{
    const float* row = x + r * cols;
    float sum = 0.0f;
    for (long c = 0; c < cols; c++) sum += row[c] * row[c];
    const float scale = 1.0f / std::sqrt(sum / cols + 1e-6f);
    for (long c = 0; c < cols; c++) out[r * cols + c] = row[c] * scale * w[c];
  }}
}}
"""
CPP_FLAGS = ["-fassociative-math", "-fno-signed-zeros", "-fno-trapping-math"]

_lib = _load()
_lib.norm.argtypes = [ctypes.c_void_p] * 3 + [ctypes.c_long] * 2
_lib.norm.restype = None

def kernel(x, w):
    x, w = x.contiguous(), w.contiguous()
    out = torch.empty_like(x)
    _lib.norm(x.data_ptr(), w.data_ptr(), out.data_ptr(), x.shape[0], x.shape[1])
    return out
'''

DIAGNOSIS = {
    "bottleneck": "overhead",
    "summary": "The call costs more than the arithmetic.",
    "advice": [
        {"action": "less_overhead", "reason": "One kernel in place of two.", "weight": 2},
        {"action": "vectorize", "reason": "The inner loop is scalar."},
    ],
}
_ROLES = {
    "You are the analyst": json.dumps(DIAGNOSIS),
    "You are the planner": '{"choice": 1, "why": "It has more to gain."}',
    "You are the distiller": '{"lessons": ["One call of the library is enough."]}',
    "You are the context memory": "n001 is right and no faster; what calls less often won. Untried: wider vectors.",
}


class Models:
    """Every model of a search.

    Its authors meet an overload, break off once, think, refuse once, and forget a sign in every ninth file. Its server
    of OpenAI's format takes no schema of an answer.
    """

    def __init__(self) -> None:
        self.drafts = 0

    def __call__(self, body: dict[str, Any]) -> Reply:
        """The answer to ``body``, in either format."""
        if "response_format" in body:
            return Failed(400, "invalid_request_error", "response_format is not supported")
        asked = json.dumps([body.get("system"), body["messages"]])
        for beginning, answer in _ROLES.items():
            if beginning in asked:
                return Said(answer, usage={"input": 700, "output": 60})
        turn = sum(message["role"] == "assistant" for message in body["messages"])
        usage = {"input": 300 + 200 * turn, "output": 90, "read": 4000 if turn else 0, "write": 0 if turn else 4000}
        if "You are the deep search" in asked:
            return self._searching(turn, usage)
        return self._authoring(body, turn, usage)

    def _searching(self, turn: int, usage: dict[str, int]) -> Said:
        if turn == 0:
            return Said(tools=(("search_knowledge", {"question": "rows of a norm in one pass"}),), usage=usage)
        if turn == 1:
            return Said(tools=(("show_node", {"node": "n001", "part": "diagnosis"}),), usage=usage)
        return Said("Two passes over a row that fits the cache (hardware/cpu/caches.md; n001).", usage=usage)

    def _authoring(self, body: dict[str, Any], turn: int, usage: dict[str, int]) -> Reply:
        offered = {tool.get("name") or tool["function"]["name"] for tool in body.get("tools", ())}
        if turn == 0:
            self.drafts += 1
            if self.drafts == 2:
                return Failed(529, "overloaded_error", "busy")
            if self.drafts == 4:
                return Said("This breaks off in the mid", cut=True)
            if self.drafts == 6:
                return Said("I would rather not.", stop="refusal", usage=usage)
            if self.drafts == 8:
                return Said(f"One call.\n\n```python\n{DRAFT.format(number=8)}```\n", usage=usage)
            return Said("A look first.", tools=_first(offered), usage=usage)
        if turn == 1:
            return Said(tools=(("check", {"source": self._draft(turn, BROKEN)}),), usage=usage)
        if turn == 2 and "system" in body:
            return Said(blocks=_thought(self._draft(turn), turn), tools=(("", {}),), usage=usage)
        if turn == 2:
            return Said(tools=(("compile", {"source": self._draft(turn)}),), usage=usage)
        return Said(tools=(("submit", {"source": self._draft(turn), "idea": "One call."}),), usage=usage)

    def _draft(self, turn: int, template: str = "") -> str:
        template = template or (NATIVE if self.drafts % 3 == 0 else DRAFT)
        source = template.format(number=f"{self.drafts}.{turn}")
        return source.replace("out[r * cols + c] =", "out[r * cols + c]") if self.drafts % 9 == 0 else source


def _first(offered: set[str]) -> tuple[tuple[str, Any], ...]:
    looks = (("history", {"question": "this_session"}), ("show_node", {"node": "n001", "part": "source"}))
    search = (("deep_search", {"question": "How many passes over a row?"}),)
    return (*looks, *(search if "deep_search" in offered else ()))


def _thought(source: str, turn: int) -> tuple[dict[str, Any], ...]:
    use = {"type": "tool_use", "id": f"toolu_{turn}_0", "name": "check", "input": {"source": source}}
    return ({"type": "thinking", "thinking": "One call may do.", "signature": "signed"}, use)
