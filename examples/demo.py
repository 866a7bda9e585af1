"""Sentences like the paper's, explained by sensitivity analysis and by LRP, on the terminal and in demo/index.html."""

from pathlib import Path

from rich.console import Console

import whence
from whence.models.files import write_whole
from whence.render.html import page
from whence.render.terminal import print_on

SENTENCES = [
    "Neither funny nor suspenseful nor particularly well-drawn.",
    "The film is a horrible waste of two hours, and it isn't even a thrilling disaster.",
    "A thrilling, romantic and thoroughly entertaining must-see!",
    "It's not a waste of time: worthy, honest and often very funny.",
]


def main() -> None:
    """Explain every sentence's predicted class with both methods."""
    pipeline = whence.load("sst-bilstm")
    methods = (whence.SensitivityAnalysis(), whence.LRP())
    columns = [whence.explain(pipeline, SENTENCES, method=method) for method in methods]
    groups = [list(group) for group in zip(*columns, strict=True)]
    console = Console(highlight=False)
    for n, group in enumerate(groups):
        if n:
            console.rule(style="dim")
        print_on(console, group)
    folder = Path("demo")
    folder.mkdir(exist_ok=True)
    write_whole(folder / "index.html", page(groups, title="whence: which words spoke for the decision?").encode())
    console.print("\nThe same as a web page: demo/index.html")


if __name__ == "__main__":
    main()
