"""`python -m posenc.cli`, where no script is installed."""

from __future__ import annotations

from posenc.cli import main

if __name__ == "__main__":
    main()
