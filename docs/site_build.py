"""What MkDocs does beyond Markdown for this site; mkdocs.yml names this file as its hook.

Tutorials (py:percent files) become pages with the outputs of the executed notebooks in build/notebooks, where there are any.
Links to files outside of docs become links to pages that show them. Formulas become MathML, and drawings are put into the page,
so that they need no script and follow light and dark mode.
"""

import html
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jupytext
from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from nbconvert.filters import strip_ansi

DOCS = Path(__file__).parent
ROOT = DOCS.parent
NOTEBOOKS = ROOT / "build" / "notebooks"
LINK = re.compile(r"(\]\()([^)\s#:]+)(#[^)\s]*)?(\))")
KINDS = {".py": "python", ".c": "c", ".toml": "toml", ".yaml": "yaml", ".md": "markdown"}
OUTPUTS: dict[str, list[str]] = {}  # of each page, the outputs of its cells, as HTML


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of tutorials, their notebooks, and pages for the repository's files that docs link to."""
    for script in sorted((DOCS / "tutorials").glob("*.py")):
        uri = f"tutorials/{script.stem}.md"
        notebook = executed(script)
        OUTPUTS[uri] = []
        files.append(File.generated(config, uri, content=page_of(notebook, OUTPUTS[uri], script.stem)))
        files.append(File.generated(config, f"tutorials/{script.stem}.ipynb", content=json.dumps(notebook, indent=1)))
    for path in sorted(set(linked_outside(files))):
        files.append(File.generated(config, shown_at(path), content=source_page(path)))
    return files


def executed(script: Path) -> Any:
    """The notebook of a tutorial, with outputs if it was executed after its last change."""
    found = NOTEBOOKS / f"{script.stem}.ipynb"
    if found.exists() and found.stat().st_mtime >= script.stat().st_mtime:
        return json.loads(found.read_text(encoding="utf-8"))
    return json.loads(jupytext.writes(jupytext.read(script), fmt="ipynb"))


def page_of(notebook: Any, outputs: list[str], name: str) -> str:
    """A notebook as Markdown. Outputs are kept aside, so that Markdown does not change them."""
    parts: list[str] = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] != "code":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        for output in cell["outputs"]:
            parts.append(f'<div class="output" data-output="{len(outputs)}"></div>')
            outputs.append(shown(output))
    parts.append(f"[This page as a notebook]({name}.ipynb)")
    return "\n\n".join(parts) + "\n"


def shown(output: Any) -> str:
    """One output of a cell as HTML: the richest form of it."""
    data = output.get("data", {})
    if "text/html" in data:
        return "".join(data["text/html"])
    if "image/svg+xml" in data:
        return "".join(data["image/svg+xml"])
    if "image/png" in data:
        return f'<img alt="The figure that the cell above draws" src="data:image/png;base64,{data["image/png"].strip()}">'
    text = "".join(output.get("text") or data.get("text/plain", ""))
    return f"<pre>{html.escape(strip_ansi(text))}</pre>"


def linked_outside(files: Files) -> Iterator[Path]:
    """The files and folders of the repository, outside of docs, that pages link to."""
    for file in files.documentation_pages():
        if file.abs_src_path and file.generated_by is None:
            for link in LINK.finditer(Path(file.abs_src_path).read_text(encoding="utf-8")):
                target = outside(file.src_uri, link[2])
                if target is not None:
                    yield target


def outside(uri: str, link: str) -> Path | None:
    """The path of what a page links to, if it is in the repository and not a part of the site."""
    target = (DOCS / uri).parent.joinpath(link).resolve()
    is_script = target.suffix == ".py" and target.parent.name != "tutorials"
    if target.is_relative_to(ROOT) and target.exists() and (is_script or not target.is_relative_to(DOCS)):
        return target.relative_to(ROOT)
    return None


def shown_at(path: Path) -> str:
    """Where a file of the repository stands in the site: a picture as it is, all else as a page."""
    return f"repository/{path}" if path.suffix == ".png" else f"repository/{path}.md"


def source_page(path: Path) -> str | bytes:
    """A file of the repository as a page; of a folder, a list of its files."""
    full = ROOT / path
    if path.suffix == ".png":
        return full.read_bytes()
    head = f"---\nsearch: {{exclude: true}}\n---\n# {path}\n\n"
    if full.is_dir():
        names = sorted(each.name for each in full.iterdir() if each.is_file())
        return head + "\n".join(f"- `{path}/{name}`" for name in names) + "\n"
    return head + f"~~~~~~{KINDS.get(path.suffix, 'text')}\n{full.read_text(encoding='utf-8')}\n~~~~~~\n"


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point links at the pages of tutorials and of the repository's files."""
    uri = page.file.src_uri
    up = "../" * uri.count("/")

    def mended(link: re.Match[str]) -> str:
        target, path = link[2], outside(uri, link[2])
        if path is not None:
            target = up + shown_at(path)
        elif (DOCS / uri).parent.joinpath(target).resolve().parent == DOCS / "tutorials":
            target = re.sub(r"\.py$", ".md", target)
        return f"{link[1]}{target}{link[3] or ''}{link[4]}"

    return markdown if uri.startswith("repository/") else LINK.sub(mended, markdown)


def on_page_content(content: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Put in outputs, formulas and drawings."""
    outputs = OUTPUTS.get(page.file.src_uri, [])
    content = re.sub(r'(<div class="output") data-output="(\d+)">', lambda m: f"{m[1]}>{outputs[int(m[2])]}", content)
    content = re.sub(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', formula, content, flags=re.DOTALL)
    return re.sub(r'<p><img alt="([^"]*)" src="([^"]*\.svg)" ?/?></p>', lambda m: drawing(m, page), content)


def formula(found: re.Match[str]) -> str:
    """A formula as MathML."""
    return convert(html.unescape(found[3]).strip(), display="inline" if found[2] == "(" else "block")


def drawing(image: re.Match[str], page: Page) -> str:
    """An SVG drawing in the page itself; the site's style sheet takes the place of the drawing's own colours."""
    path = (DOCS / page.file.src_uri).parent / image[2]
    if not path.exists():
        return image[0]
    svg = re.sub(r"<style>.*?</style>", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    svg = re.sub(r"<\?xml.*?\?>|<!DOCTYPE.*?>", "", svg, flags=re.DOTALL)
    if "viewBox" not in svg[: svg.index(">")]:  # without one it is cut off where there is less room
        svg = re.sub(r'width="(\d+)" height="(\d+)"', r'viewBox="0 0 \1 \2" \g<0>', svg, count=1)
    return f'<div class="figure" role="img" aria-label="{image[1]}">{svg}</div>'
