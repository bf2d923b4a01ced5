"""`python -m posenc.cli`, where no script is installed."""

from posenc.cli import main

if __name__ == "__main__":
    main()
