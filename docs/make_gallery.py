"""Makes the pictures and pages of docs/gallery.md: runs every `whence` command that stands in it.

`python docs/make_gallery.py` writes into docs/figures/gallery; `--output DIR` puts figures/gallery elsewhere.
"""

import argparse
import os
import re
import shlex
import sys
from pathlib import Path

from whence.cli.main import main as whence

DOCS = Path(__file__).parent


def commands() -> list[list[str]]:
    """The commands of the page, without the word `whence`."""
    page = (DOCS / "gallery.md").read_text(encoding="utf-8")
    return [shlex.split(line)[1:] for line in re.findall(r"^whence .*--output figures/gallery/.*$", page, re.MULTILINE)]


def main() -> None:
    """Run the commands in the folder that holds figures/gallery."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=DOCS)
    folder: Path = parser.parse_args().output
    (folder / "figures" / "gallery").mkdir(parents=True, exist_ok=True)
    os.chdir(folder)
    for command in commands():
        sys.argv = ["whence", *command]
        try:
            whence()
        except SystemExit as end:
            if end.code:
                raise


if __name__ == "__main__":
    main()
