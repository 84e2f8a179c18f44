"""PyTorch's own lists of operators and modules (OpInfo, ModuleInfo): is what we generate for each of them right?"""

from .bench import Choice, bench
from .report import Cause, Report, Share, markdown, named
from .row import Outcome, Row
from .task import DTYPES, LANGUAGES, LISTS, Task
