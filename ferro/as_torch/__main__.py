"""``python -m ferro.as_torch script.py ...``: runs a program for which `torch` is ferro."""

import sys

from ferro.as_torch.run import main

if __name__ == "__main__":
    main(sys.argv[1:])
