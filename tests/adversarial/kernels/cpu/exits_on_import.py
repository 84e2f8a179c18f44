"""Attack: its process ends as if all were well, before anything is called."""

import os

os._exit(0)
