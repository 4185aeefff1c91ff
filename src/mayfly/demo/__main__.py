"""``python -m mayfly.demo``: the same as ``mayfly demo``."""

import sys

from mayfly.cli import main

if __name__ == "__main__":
    main(["demo", *sys.argv[1:]])
