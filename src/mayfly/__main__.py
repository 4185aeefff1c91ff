"""``python -m mayfly``: the same as ``mayfly``."""

from mayfly.cli import main

if __name__ == "__main__":
    main()
