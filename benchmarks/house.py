"""Counts how the house stands: lists of operations, hops of one explanation, `Any`, import cycles, files to touch.

    python benchmarks/house.py                       # the working tree
    python benchmarks/house.py --at COMMIT           # a commit, unpacked into a temporary folder
    python benchmarks/house.py --before COMMIT       # both, side by side
    python benchmarks/house.py --verbose --json counts.json

Fewer is better throughout. Files are found by walking the tree, so the counts survive a restructuring.
"""

import argparse
import ast
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from functools import cache
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from types import FrameType

import torch

ROOT = Path(__file__).parents[1]
ROOMS = ("engine/", "methods/", "interpreter/")  # where operations are told apart; the last, in commits before the engine
SENTENCE = "neither funny nor suspenseful nor particularly well-drawn ."
HOMES = (torch.Tensor, torch.nn.functional, torch.special, torch.nn.utils.rnn)
NAMED = re.compile(r"name|func|operation|^op$")  # an expression that holds the name of an operation
COMPREHENSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")  # calls in Python 3.11, mostly not so in 3.12

# What names an existing example of something that may be added: the files that mention it are those to touch for another.
PROBES = {
    "an activation": r"\bmish\b",
    "a compiled cell": r"GRUWeights|gru_weights|\"gru\"",
    "a method": r"\bGradientXInput\b|\"gi\"",
    "a kind of input": r"\bPackedSequence\b",
}

Trees = Mapping[str, ast.Module]  # by file, from the package's folder
Counts = dict[str, float | list[str]]  # by what is counted: a number, or the places that are counted


@cache
def is_operation(name: str) -> bool:
    """Whether torch has a function, method or property of that name, alone, in place (add_) or as an operator (__add__)."""
    forms = (name, f"{name}_", f"__{name}__")
    found = any(callable(getattr(torch, form, None)) or any(hasattr(home, form) for home in HOMES) for form in forms)
    return found and name.isidentifier()


def last_name(node: ast.AST | None) -> str:
    """The last name of `a` or of `b.a`; nothing for another expression."""
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def words_of(node: ast.AST) -> list[str]:
    """The strings that a collection holds directly: its elements, its keys, or the words of "…".split()."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "split":
        text = node.func.value
        return text.value.split() if isinstance(text, ast.Constant) and isinstance(text.value, str) else []
    held = node.keys if isinstance(node, ast.Dict) else getattr(node, "elts", [])
    return [each.value for each in held if isinstance(each, ast.Constant) and isinstance(each.value, str)]


def statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a module that run when it is imported, also those inside classes, `if` and `try`; no function's."""
    for node in body:
        if isinstance(node, (ast.ClassDef, ast.If, ast.Try, ast.With)):
            yield from statements(node.body)
        elif not isinstance(node, ast.FunctionDef):
            yield node


def operations_in(statement: ast.stmt) -> set[str]:
    """The operations that a statement lists, where one of its collections holds two or more; Literal[…] is a type."""
    value = getattr(statement, "value", None) or getattr(statement, "iter", None)
    found, waiting = set[str](), [value] if value else []
    while waiting:
        node = waiting.pop()
        if not isinstance(node, (ast.Lambda, ast.Subscript)):
            named = {word for word in words_of(node) if is_operation(word)}
            found |= named if len(named) > 1 else set()
            waiting += ast.iter_child_nodes(node)
    return found


def asks_for(node: ast.AST) -> ast.AST | None:
    """What the name of an operation is compared with, in `name == "add"`, `name in (…)` or `case "add"`."""
    if isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.Eq, ast.NotEq, ast.In, ast.NotIn)):
        return node.comparators[0] if NAMED.search(last_name(node.left)) else None
    return node.value if isinstance(node, ast.MatchValue) else None


def operations(trees: Trees) -> Counts:
    """Collections of operation names, operations that stand in more than one, and comparisons by name.

    A collection is a statement outside functions that holds a set, tuple, list, dict or split string with two names or more.
    """
    own = {file: tree for file, tree in trees.items() if file.startswith(ROOMS)}
    listed = [(file, each, operations_in(each)) for file, tree in own.items() for each in statements(tree.body)]
    collections = {
        f"{file}:{each.lineno} {ast.unparse(each).split()[0].strip(':')}": found for file, each, found in listed if found
    }
    targets = {place.split()[-1] for place in collections}
    names = [name for own in collections.values() for name in own]
    written, looked_up = list[str](), list[str]()
    for file, node in ((file, node) for file, tree in own.items() for node in ast.walk(tree)):
        if (other := asks_for(node)) is not None:
            words = [other.value] if isinstance(other, ast.Constant) else words_of(other)
            place = f"{file}:{getattr(node, 'lineno', 0)} {ast.unparse(node)}"
            written += [place] * any(isinstance(word, str) and is_operation(word) for word in words)
            looked_up += [place] * (last_name(other) in targets)
    return {
        "collections of operation names": list(collections),
        "  files that hold one": sorted({place.split(":")[0] for place in collections}),
        "  operations in two or more": sorted({name for name in names if names.count(name) > 1}),
        "comparisons with a name written out": sorted(written),
        "  with such a collection": sorted(looked_up),
    }


def print_hops() -> None:
    """Explain a sentence with the package on the path, twice, and print the files of the second time's calls, in order."""
    import whence

    torch.set_num_threads(1)
    pipeline, package, files = whence.load("sst-bilstm"), str(Path(whence.__file__).parent) + os.sep, list[str]()

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(package) and code.co_name not in COMPREHENSIONS:
            files.append(code.co_filename.removeprefix(package))

    whence.explain(pipeline, SENTENCE)
    sys.setprofile(note)
    whence.explain(pipeline, SENTENCE)
    sys.setprofile(None)
    print(json.dumps(files))


def hops(package: Path) -> Counts:
    """How far one explanation of one sentence walks: LRP's defaults, the bundled model, after a first explanation.

    A call is a Python function of the package that begins, or a generator that goes on; comprehensions are none, nor are
    functions of other packages and those that dataclasses generate. A hop is two calls, one beginning right after the other,
    in different files, whether the second is called by the first or after the first has returned. A change of room is a hop
    between different folders of the package; its files outside any folder are one room.
    """
    environment = {**os.environ, "PYTHONPATH": str(package.parent)}
    done = subprocess.run([sys.executable, __file__, "--hops"], env=environment, stdout=subprocess.PIPE, text=True, check=True)
    files: list[str] = json.loads(done.stdout)
    rooms = [file.split("/")[0] if "/" in file else "" for file in files]
    return {
        "calls of one explanation": len(files),
        "  files they are in": sorted(set(files)),
        "  hops from file to file": sum(a != b for a, b in pairwise(files)),
        "  changes of room": sum(a != b for a, b in pairwise(rooms)),
    }


def imports_of(node: ast.AST, modules: Mapping[str, ast.Module], *, late: bool) -> Iterator[str]:
    """The modules of the package that a file imports; `late`: also inside functions and for the type checker alone."""
    is_late = isinstance(node, ast.FunctionDef) or (isinstance(node, ast.If) and last_name(node.test) == "TYPE_CHECKING")
    if is_late and not late:
        return
    named = list[str]()
    if isinstance(node, ast.Import):
        named = [each.name for each in node.names]
    elif isinstance(node, ast.ImportFrom):
        named = [name if (name := f"{node.module}.{each.name}") in modules else str(node.module) for each in node.names]
    elif isinstance(node, ast.Call) and last_name(node.func) == "import_module" and isinstance(node.args[0], ast.Constant):
        named = [str(node.args[0].value)]
    yield from (name for name in named if name in modules)
    for child in ast.iter_child_nodes(node):
        yield from imports_of(child, modules, late=late)


def cycles(trees: Trees, *, late: bool) -> list[str]:
    """The groups of files that import each other, directly or not; an __init__.py that loads names when asked is no part."""
    modules = {re.sub(r"(/__init__)?\.py$", "", f"whence/{file}").replace("/", "."): tree for file, tree in trees.items()}
    lazy = {name for name, tree in modules.items() if any(getattr(node, "name", "") == "__getattr__" for node in tree.body)}
    edges = {name: set(imports_of(tree, modules, late=late)) - lazy for name, tree in modules.items() if name not in lazy}
    reached = {name: set(own) for name, own in edges.items()}
    for middle in edges:  # Warshall: what is reached by way of it
        for own in reached.values():
            own |= reached[middle] if middle in own else set()
    groups = {tuple(other for other in sorted(edges) if other in reached[name] and name in reached[other]) for name in edges}
    return [" <-> ".join(group) for group in sorted(groups) if len(group) > 1]


def counts_of(root: Path) -> Counts:
    """All counts of a checkout."""
    package = root / "src" / "whence"
    paths = [path for path in sorted(package.rglob("*")) if path.suffix in (".py", ".c", ".h")]
    sources = {path.relative_to(package).as_posix(): path.read_text(encoding="utf-8") for path in paths}
    trees = {file: ast.parse(text) for file, text in sources.items() if file.endswith(".py")}
    used = [node for tree in trees.values() for node in ast.walk(tree) if last_name(node) == "Any"]
    lines = sum(sources[file].count("\n") for file in trees)
    return {
        **operations(trees),
        **hops(package),
        "`Any` per 1,000 lines of Python": round(1000 * len(used) / lines, 1),
        "import cycles": cycles(trees, late=False),
        "  with late and type-only imports": cycles(trees, late=True),
        **{
            f"files that mention {thing}": [file for file, text in sources.items() if re.search(pattern, text)]
            for thing, pattern in PROBES.items()
        },
    }


def counts_at(commit: str) -> Counts:
    """All counts of a commit."""
    packed = subprocess.run(["git", "archive", commit, "src"], cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
    with tempfile.TemporaryDirectory() as folder, tarfile.open(fileobj=BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")
        return counts_of(Path(folder))


def main() -> None:
    """Print the table, and write it as JSON where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--at", metavar="COMMIT", help="count a commit instead of the working tree")
    parser.add_argument("--before", metavar="COMMIT", help="count a commit too, and print it first")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write numbers and places here")
    parser.add_argument("--verbose", action="store_true", help="print all counted places")
    options = parser.parse_args()
    columns = {options.before: counts_at(options.before)} if options.before else {}
    columns[options.at or "now"] = counts_at(options.at) if options.at else counts_of(ROOT)
    print(f"{'':40}" + "".join(f"{name[:12]:>14}" for name in columns))
    for label in next(iter(columns.values())):
        found = {name: counts[label] for name, counts in columns.items()}
        print(f"{label:40}" + "".join(f"{len(own) if isinstance(own, list) else own:>14,g}" for own in found.values()))
        for name, own in found.items() if options.verbose or "mention" in label else ():
            print("".join(f"    {name[:12]}  {place}\n" for place in (own if isinstance(own, list) else ())), end="")
    if options.json:
        options.json.write_text(json.dumps(columns, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    print_hops() if sys.argv[1:] == ["--hops"] else main()
