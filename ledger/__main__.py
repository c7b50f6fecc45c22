"""`python -m ledger`: the command line, where no script of it is on the PATH."""

from ledger.cli import main

if __name__ == "__main__":
    main()
