"""``python -m kernelswarm``: the command line, where its script is not on the path."""

from .cli.__main__ import main

if __name__ == "__main__":
    main()
