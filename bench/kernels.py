"""What the large operations cost: the rows of bench/run.py from "pointwise" to "indexing".

python bench/kernels.py                 all of them; a row whose numbers differ between the engines says so and exits 1
python bench/kernels.py --only conv2d   some rows
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench import run
from bench.cases import Case, Running, disagreement

__all__ = ["GROUPS", "Case", "Running", "disagreement"]

GROUPS = ("pointwise", "reductions", "nn", "linalg", "indexing")

if __name__ == "__main__":
    sys.exit(run.main(groups=GROUPS))
