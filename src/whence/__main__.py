"""`python -m whence`: the command, where its script is not on the path."""

from whence.cli.main import main

if __name__ == "__main__":
    main()
