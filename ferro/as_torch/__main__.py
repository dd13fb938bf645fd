"""``python -m ferro.as_torch script.py ...``: runs a program for which `torch` is ferro."""

import sys

from ferro.as_torch.run import main

main(sys.argv[1:])
