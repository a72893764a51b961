"""`python -m pellucid` is the same as `pellucid`."""

from .cli.commands import main

if __name__ == "__main__":
    main()
