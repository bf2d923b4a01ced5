"""`python -m posenc.learn FOLDER`: write the pages of the documentation."""

import sys
from pathlib import Path

from posenc.learn.pages import write

if __name__ == "__main__":
    for path in write(Path(sys.argv[1])):
        sys.stdout.write(f"{path}\n")
