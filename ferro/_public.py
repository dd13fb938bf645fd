"""The public names, for the parts of ferro that are written as programs of its users: distributions, array_api, as_torch.

It is the package, which names those parts itself, for types. They call functions by their public names, so that those who
override them (see overrides.py) are asked.
"""

import sys
from typing import Any

ferro: Any = sys.modules["ferro"]
