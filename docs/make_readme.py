"""The pictures of the README: `python docs/make_readme.py [badges|hero|list|page …]` writes docs/figures/readme-* and badge-*.

It explains with the bundled model and takes the pictures in a real browser. It needs Chromium, and the extra `dev`.
"""

import re
import sys
import tomllib
from collections.abc import Generator
from contextlib import contextmanager
from html import escape
from io import BytesIO
from pathlib import Path
from typing import Any, Literal

import nbformat
from matplotlib.font_manager import findfont
from nbconvert import HTMLExporter
from nbconvert.preprocessors import ExecutePreprocessor
from PIL import Image, ImageFont, ImageOps
from playwright.sync_api import Browser, Page

import whence
from whence.render.colour import AGAINST, FOR, RGB, hexadecimal, shades

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from tests.web.browser import browsing, serving, settled, visiting  # noqa: E402 - the tests' server and browser

FIGURES = ROOT / "docs" / "figures"
SENTENCE = "neither funny nor suspenseful nor particularly well-drawn ."
GROUNDS: dict[str, RGB] = {"light": (255, 255, 255), "dark": (13, 17, 23)}  # GitHub's own
INKS = {"light": ("#1f2328", "#59636e", "#d1d9e0", "#818b98"), "dark": ("#f0f6fc", "#9198a1", "#3d444d", "#656c76")}

HERO = """<style>
* {{ box-sizing: border-box; margin: 0; }}
body {{ font: 17px/1.4 "DejaVu Sans", system-ui, sans-serif; color: {ink}; background: transparent; width: 960px; }}
#card {{ background: {ground}; border: 1px solid {line}; border-radius: 14px; padding: 26px 34px 22px; }}
.sides {{ display: flex; gap: 32px; }}
.left {{ flex: 1; }} .right {{ width: 318px; }}
.small {{ color: {soft}; font-size: 15px; }} .small b {{ color: {ink}; }}
.words {{ display: flex; flex-wrap: wrap; gap: 12px 8px; margin-top: 18px; }}
.word {{ text-align: center; }}
.word b {{ display: block; font: 33px/1.25 "Liberation Serif", Georgia, serif; border-radius: 7px; padding: 3px 9px 5px; }}
.word i {{ display: block; font: 14px/1 "DejaVu Sans", sans-serif; color: {soft}; margin-top: 7px; }}
.score {{ display: grid; grid-template-columns: 108px 1fr 66px; gap: 10px; align-items: center; margin-top: 9px; font-size: 15px; color: {soft}; }}
.score.is-best {{ color: {ink}; font-weight: bold; }}
.score u {{ position: absolute; top: 4px; height: 12px; background: {bar}; }}
.axis {{ position: relative; height: 20px; }} .axis::after {{ content: ""; position: absolute; left: var(--zero); top: -5px; height: 30px; width: 1px; background: {soft}; }}
 .score.is-best u {{ background: {ink}; }}
.score span:last-child {{ text-align: right; font-variant-numeric: tabular-nums; }}
.ledger {{ border-top: 1px solid {line}; margin-top: 24px; padding-top: 15px; font-size: 16px; color: {soft}; display: flex; gap: 13px; align-items: baseline; }}
.ledger b {{ color: {ink}; font-variant-numeric: tabular-nums; }}
.ledger span:last-child {{ margin-left: auto; }}
.key {{ color: white; border-radius: 4px; padding: 1px 8px; font-size: 14px; }}
</style><div id="card"><div class="sides">
<div class="left"><div class="small">A bidirectional LSTM says <b>{predicted}</b>. Why?</div><div class="words">{words}</div></div>
<div class="right"><div class="small">its scores</div>{scores}</div></div>
<div class="ledger"><span>words <b>{relevance}</b></span>+<span>biases <b>{biases}</b></span>+<span>initial states <b>{states}</b></span>=<span>score
 <b>{score}</b></span><span><span class="key" style="background:{red}">for</span> <span class="key" style="background:{blue}">against</span> {predicted}</span></div>
</div>"""  # noqa: E501 - a page

CODE = """import pandas, whence

frame = pandas.read_csv("reviews.csv")
whence.explain("sst-bilstm", frame["review"], labels=frame["mood"])"""
REVIEWS = """review,mood
"a gorgeous film , funny and honest",very positive
neither funny nor suspenseful nor particularly well-drawn .,negative
a dull waste of time,very negative
not a waste of time,positive
"a warm , moving story with a brilliant cast",very positive
,neutral
it is not as bad as its trailer,positive
"a thrilling , romantic disaster that wastes its talented cast",negative
"""


def main() -> None:
    """Take the pictures that were asked for, or all."""
    wanted = sys.argv[1:] or ["badges", "hero", "list", "page"]
    if "badges" in wanted:
        badges()
    with browsing() as browser:
        for scheme in GROUNDS:
            if "hero" in wanted:
                hero(browser, scheme)
            if "list" in wanted:
                listed(browser, scheme)
        if "page" in wanted:
            with serving() as address:
                for scheme in GROUNDS:
                    page_in_use(browser, address, scheme)


def badges() -> None:
    """What pyproject.toml says of versions and licence, as small pictures that no other host has to draw."""
    told = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    project, checked = told["project"], told["tool"]["pyright"]["typeCheckingMode"]
    python = " | ".join(re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"])))
    torch = next(each.removeprefix("torch") for each in project["dependencies"] if each.startswith("torch"))
    facts = {
        "python": ("Python", python), "pytorch": ("PyTorch", torch.replace(">=", "≥ ")),
        "licence": ("licence", project["license"]), "types": ("types", f"pyright, {checked}"),
        "paper": ("paper", "Arras et al. 2017"),
    }  # fmt: skip
    for name, (label, value) in facts.items():
        (FIGURES / f"badge-{name}.svg").write_text(badge(label, value), encoding="utf-8")


def badge(label: str, value: str) -> str:
    """A label on grey and a value on whence's blue."""
    font = ImageFont.truetype(findfont("DejaVu Sans"), 11)
    left, right = (round(font.getlength(text)) + 14 for text in (label, value))
    letters = 'fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11" text-anchor="middle"'
    return f"""<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="20" role="img" aria-label="{label}: {value}">
<title>{label}: {value}</title>
<clipPath id="r"><rect width="{left + right}" height="20" rx="3"/></clipPath>
<g clip-path="url(#r)"><rect width="{left}" height="20" fill="#555"/><rect x="{left}" width="{right}" height="20" fill="{hexadecimal(AGAINST)}"/></g>
<g {letters}><text x="{left / 2}" y="14" textLength="{left - 14}">{label}</text><text x="{left + right / 2}" y="14" textLength="{right - 14}">{value}</text></g>
</svg>
"""  # noqa: E501 - a picture


def hero(browser: Browser, scheme: str) -> None:
    """A sentence with the relevance of its words, the scores of all classes, and the sum."""
    explanation = whence.explain("sst-bilstm", SENTENCE)
    ground = GROUNDS[scheme]
    ink, soft, line, bar = INKS[scheme]
    words = ""
    for token, value, shade in zip(explanation.tokens, explanation.relevance, shades(explanation), strict=True):
        letters = "white" if shade.strength > 0.6 or scheme == "dark" else ink
        style = f"background:{hexadecimal(shade.mixed(ground))};color:{letters}"
        words += f'<div class="word"><b style="{style}">{escape(token)}</b><i>{signed(value)}</i></div>'
    scores, low, high = "", min(0.0, *explanation.scores.values()), max(0.0, *explanation.scores.values())
    for name, value in explanation.scores.items():
        best = " is-best" if name == explanation.predicted else ""
        zero, left, width = (100 * part / (high - low) for part in (-low, min(value, 0.0) - low, abs(value)))
        axis = f'<span class="axis" style="--zero:{zero}%"><u style="left:{left}%;width:{width}%"></u></span>'
        scores += f'<div class="score{best}"><span>{name}</span>{axis}<span>{signed(value)}</span></div>'
    biases = sum(value for name, value in explanation.absorbed.items() if name.endswith(".bias"))
    states = sum(value for name, value in explanation.absorbed.items() if name.endswith(".initial_state"))
    drawn = HERO.format(
        ground=hexadecimal(ground), ink=ink, soft=soft, line=line, bar=bar, red=hexadecimal(FOR), blue=hexadecimal(AGAINST),
        words=words, scores=scores, predicted=explanation.predicted, score=signed(explanation.score),
        relevance=signed(sum(explanation.relevance)), biases=signed(biases), states=signed(states),
    )  # fmt: skip
    with drawing(browser, drawn, scheme) as page:
        page.locator("#card").screenshot(path=FIGURES / f"readme-hero-{scheme}.png", omit_background=True)


def signed(value: float) -> str:
    """A number with its sign and three decimals."""
    return f"{value:+.3f}".replace("-", "−")


def listed(browser: Browser, scheme: str) -> None:
    """A table of reviews in a notebook: run by Jupyter, and shown by its own template."""
    (folder := ROOT / "build" / "readme").mkdir(parents=True, exist_ok=True)
    (folder / "reviews.csv").write_text(REVIEWS, encoding="utf-8")
    notebook: Any = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(CODE)])
    ExecutePreprocessor(kernel_name="python3").preprocess(notebook, {"metadata": {"path": str(folder)}})
    html, _ = HTMLExporter(theme=scheme).from_notebook_node(notebook)
    with drawing(browser, html, scheme) as page:
        page.locator(".jp-Cell").first.screenshot(path=FIGURES / f"readme-list-{scheme}.png")


def page_in_use(browser: Browser, address: str, scheme: str) -> None:
    """The page as it is used: a sentence is typed, and words are deleted until the class changes."""
    frames: list[tuple[Image.Image, int]] = []
    size = {"width": 1120, "height": 950}
    with visiting(browser, address, viewport=size, color_scheme=scheme) as page:
        for end in (7, 13, 17, 29, 33, 46, len(SENTENCE)):
            page.fill("#text", SENTENCE[:end])
            answered(page)
            frames.append((picture(page, scheme), 450))
        frames.append((picture(page, scheme), 1600))
        for _ in range(2):
            page.click("#delete-next")
            answered(page)
            frames.append((picture(page, scheme), 2400))
    first, *others = [frame for frame, _ in frames]
    path = FIGURES / f"readme-page-{scheme}.webp"
    first.save(path, save_all=True, append_images=others, duration=[time for _, time in frames], loop=0, quality=80, method=6)


def answered(page: Page) -> None:
    """Wait for the answer, and until colours have stopped moving."""
    settled(page)
    page.wait_for_timeout(700)


def picture(page: Page, scheme: str) -> Image.Image:
    """What the browser shows, with a frame."""
    shown = Image.open(BytesIO(page.screenshot(animations="disabled"))).convert("RGB")
    return ImageOps.expand(shown, 1, INKS[scheme][2])


@contextmanager
def drawing(browser: Browser, html: str, scheme: Literal["light", "dark"]) -> Generator[Page]:
    """A page made of this text; it loads nothing."""
    context = browser.new_context(viewport={"width": 960, "height": 800}, device_scale_factor=2, color_scheme=scheme)
    context.route("**/*", lambda route: route.abort())
    page = context.new_page()
    page.set_content(html, wait_until="domcontentloaded")
    yield page
    context.close()


if __name__ == "__main__":
    main()
