"""`python -m unitail` is the `unitail` command."""

from unitail.cli.main import main

if __name__ == "__main__":
    main()
