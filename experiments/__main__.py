"""All experiments: the papers' figures repeated, with our trend beside theirs.

python -m experiments            # everything
python -m experiments wave       # only those whose name begins so
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def main() -> None:
    words = [word for word in sys.argv[1:] if not word.startswith("-")]
    if {"-h", "--help"} & set(sys.argv):
        print(__doc__)
        return
    here = Path(__file__).parent
    names = sorted(folder.parent.name for folder in here.glob("*/run.py"))
    chosen = [name for name in names if not words or any(name.startswith(word) for word in words)]
    if not chosen:
        sys.exit(f"no experiment begins with {words}; there are: {', '.join(names)}")
    failed = []
    for name in chosen:
        print(f"{name}:", flush=True)
        if subprocess.run([sys.executable, "-m", f"experiments.{name}.run"]).returncode:
            failed.append(name)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
