"""The namespace of the functions of this backend, for its own files: the `xp` of formulas that are computed here.

It is the package, which its files fill while they are imported; a formula looks a name up when it runs.
"""

import sys
from typing import Any

cpu: Any = sys.modules["ferro.cpu"]
