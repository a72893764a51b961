"""`python -m pellucid` is the same as `pellucid`."""

from .cli import main

if __name__ == "__main__":
    main()
