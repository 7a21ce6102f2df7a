"""``python -m qcompile``: the command line."""

from qcompile.cli import main

if __name__ == "__main__":
    main()
