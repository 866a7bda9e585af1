"""Rendered explanations contain every character, and none of them has an effect."""

import csv
import json
import re
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser
from io import StringIO
from itertools import pairwise
from pathlib import Path
from typing import Literal
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.color_triplet import ColorTriplet
from rich.console import Console
from rich.text import Text

import whence
from whence.explanation import Explanation
from whence.methods.registry import METHODS, method_class
from whence.render.colour import AGAINST, FOR, Shade, shades, visible
from whence.render.formats import FORMATS, rendered
from whence.render.html import notebook, page
from whence.render.latex import latex
from whence.render.svg import svg
from whence.render.tables import csv_lines
from whence.render.terminal import print_on, scores, terminal
from whence.text.tokenizer import TreebankTokenizer

HOSTILE = [
    "<script>alert('x')</script> & \"quotes\" </style><img src=x onerror=alert(1)>",
    "\x1b[31mred\x1b[0m \x07bell \x9b31m \x00 nul",
    "\\input{/etc/passwd} $x^2$ 50% #1 a_b ~tilde {brace} & ^",
    "emoji 😀👩‍👩‍👧 family, 日本語の文, עברית and العربية \u202eturned\u202c",
    "lone \ud800 surrogate \ufffe",
    "Title:\n  indented\tline\r\n\nlast",
    "x" * 300 + " " + "y" * 200,
]


def explained(text: str) -> Explanation:
    tokens = TreebankTokenizer().tokens(text)
    return Explanation(
        text=text,
        tokens=tuple(text[t.start : t.end] for t in tokens),
        spans=tuple((t.start, t.end) for t in tokens),
        unknown=tuple(n % 3 == 0 for n in range(len(tokens))),
        relevance=tuple((-1) ** n * (n + 1) / 7 for n in range(len(tokens))),
        scores={"<no>": -1.0, "yes & no": 2.0},
        predicted="yes & no",
        target="<no>",
        method={"name": "lrp", "epsilon": 1e-3, "delta": 0.0},
        absorbed={"head.bias": 0.25},
        model="tiny",
    )


class Reader(HTMLParser):
    """Collects text and tags."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        assert not any(name.startswith("on") for name, _ in attrs)

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def read(markup: str) -> Reader:
    reader = Reader()
    reader.feed(markup)
    return reader


@pytest.mark.parametrize("text", ["=cmd|' /C calc'!A0", "+ fine", "- fine", "@ fine", "\t= fine"])
def test_no_text_is_a_formula_in_csv(text: str) -> None:
    (row,) = csv.DictReader(StringIO(csv_lines([[explained(text)]]), newline=""))
    assert row["text"] == f"'{text}"
    assert json.loads(row["tokens"])  # lists are JSON, which no spreadsheet runs


@pytest.mark.parametrize("text", HOSTILE)
def test_html_is_inert_and_complete(text: str) -> None:
    explanation = explained(text)
    for markup in (page([[explanation]]), notebook(explanation)):
        reader = read(markup)
        assert not {"script", "img", "iframe", "link"} & set(reader.tags)
        assert visible(text).replace("\r\n", "\n") in "".join(reader.text).replace("\r\n", "\n")
        markup.encode("utf-8")


@pytest.mark.parametrize("text", HOSTILE)
def test_svg_is_well_formed_and_complete(text: str) -> None:
    root = ElementTree.fromstring(svg(explained(text)).encode("utf-8"))
    shown = "".join(node.text or "" for node in root.iter("{http://www.w3.org/2000/svg}text"))
    for word in ("script", "red", "input", "emoji", "surrogate", "indented"):
        assert (word in text) <= (word in shown)
    assert not list(root.iter("{http://www.w3.org/2000/svg}script"))


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("colour", [True, False])
def test_the_terminal_shows_no_foreign_escape(text: str, colour: bool) -> None:
    found = terminal(explained(text), colour=colour, width=60)
    rest = re.sub(r"\x1b\[[0-9;]*m", "", found)
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", rest)
    assert ("\x1b[" in found) == colour
    assert "yes & no" in rest
    assert "\x1b[31m" not in found.replace(";31m", "")


NAMES = {"\x1b[31mred\u202e": 0.5, "two\nlines\tand a tab": -1.0, "日本語": 2.0, "[bold]plain[/bold]": 0.0, "é" * 200: 1.0}


@pytest.mark.parametrize("colour", [True, False])
def test_class_and_method_names_do_nothing_to_the_terminal(colour: bool) -> None:
    method = {"name": "mine\x1b]0;title\x07\u2067", "steps\x1b": 3}
    group = [replace(explained("good film"), scores=NAMES, predicted="日本語", target=name, method=method) for name in NAMES]
    buffer = StringIO()
    print_on(Console(file=buffer, width=70, force_terminal=colour, color_system="truecolor" if colour else None), group)
    rest = re.sub(r"\x1b\[[0-9;]*m", "", buffer.getvalue()) if colour else buffer.getvalue()
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", rest)
    assert "two␊lines␉and a tab: relevance" in rest
    assert "for [bold]plain[/bold], score" in rest
    for markup in (page([group]), notebook(group[0])):
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", markup)


@pytest.mark.parametrize("width", [40, 70])
def test_bars_stand_below_each_other_whatever_the_names(width: int) -> None:
    lines = scores(replace(explained("good"), scores=NAMES, predicted="日本語"), width=width).plain.split("\n")
    assert len(lines) == len(NAMES)
    assert len({cell_len(line[: line.index(" %")]) for line in lines}) == 1
    assert all(cell_len(line) <= width for line in lines)
    assert "日本語  " in lines[2]


@pytest.mark.parametrize(("score", "shown"), [(0.0, "50.0 %"), (0.27, "56.7 %"), (-800.0, "0.0 %"), (800.0, "100.0 %")])
def test_a_models_only_score_shows_its_sigmoid(score: float, shown: str) -> None:
    alone = replace(explained("good film"), scores={"positive": score}, predicted="positive", target="positive")
    assert f" {shown}" in terminal(alone, colour=False, width=80)
    assert f">{shown}<" in notebook(alone) and f">{shown}<" in page([[alone]])


@settings(max_examples=300)
@given(text=st.text(min_size=1).filter(lambda text: bool(text.strip())))
def test_any_text_can_be_shown(text: str) -> None:
    explanation = explained(text)
    ElementTree.fromstring(svg(explanation).encode("utf-8"))
    assert visible(text).replace("\r", "\n") in "".join(read(page([[explanation]])).text).replace("\r", "\n")
    terminal(explanation, colour=True, width=40).encode("utf-8")
    latex([explanation]).encode("utf-8")
    json.loads(json.dumps(explanation.to_dict()))


def test_colours_are_full_at_the_largest_relevance() -> None:
    explanation = explained("one two three")
    strengths = shades(explanation)
    assert [shade.is_for for shade in strengths] == [True, False, True]
    assert strengths[2].strength == 1.0
    assert strengths[2].mixed() == FOR
    assert strengths[1].full == AGAINST
    assert strengths[0].strength == pytest.approx(1 / 3)


def painted(sign: int, system: Literal["256", "truecolor"]) -> list[tuple[ColorTriplet | None, ColorTriplet | None]]:
    """The colours of letters and boxes on a terminal, for words of rising relevance."""
    words = [f"w{n}" for n in range(41)]
    spans = tuple((match.start(), match.end()) for match in re.finditer(r"w\d+", " ".join(words)))
    rising = Explanation(
        " ".join(words), tuple(words), spans, (False,) * 41, tuple(sign * n / 40 for n in range(41)),
        {"x": 0.0}, "x", "x", {"name": "lrp"},
    )  # fmt: skip
    buffer = StringIO()
    print_on(Console(file=buffer, width=999, force_terminal=True, color_system=system), [rising])
    line = Text.from_ansi(buffer.getvalue().split("\n")[1])
    styles = [line.get_style_at_offset(Console(), start) for start, _ in spans]
    return [tuple(colour and colour.get_truecolor() for colour in (s.color, s.bgcolor)) for s in styles]  # type: ignore[misc]


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("system", ["truecolor", "256"])
def test_stronger_words_stand_out_more_on_dark_and_on_light_terminals(sign: int, system: Literal["256", "truecolor"]) -> None:
    found = painted(sign, system)
    kinds = [0 if letters is None else 1 if box is None else 2 for letters, box in found]
    assert kinds == sorted(kinds) and set(kinds) == {0, 1, 2}  # as it is, coloured letters, a box
    boxes = [box for _, box in found if box is not None]
    assert all((max(box) - min(box)) <= (max(after) - min(after)) for box, after in pairwise(boxes))
    assert len(set(boxes)) >= 3 and all((box.red - box.blue) * sign > 0 for box in boxes)
    lightest = max(0.299 * box.red + 0.587 * box.green + 0.114 * box.blue for box in boxes)
    assert lightest < 128  # a pale box would outshine a strong one on a dark ground
    for letters in {letters for letters, box in found if letters is not None and box is None}:
        light = luminance(letters)
        assert (light + 0.05) / 0.05 > 3 and 1.05 / (light + 0.05) > 3  # it reads well on black and on white


def luminance(colour: ColorTriplet) -> float:
    """Relative luminance, by which contrast is computed (WCAG 2)."""
    parts = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in colour.normalized]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


@pytest.mark.parametrize("is_for", [True, False])
def test_letters_read_well_on_every_shade(is_for: bool) -> None:
    for step in range(101):
        shade = Shade(step / 100, is_for)
        light = luminance(ColorTriplet(*shade.mixed()))
        contrast = 1.05 / (light + 0.05) if shade.letters == "white" else (light + 0.05) / 0.05
        assert contrast >= 4.5  # WCAG AA


def test_without_any_relevance_nothing_is_coloured() -> None:
    still = Explanation("a", ("a",), ((0, 1),), (False,), (0.0,), {"x": 0.0}, "x", "x", {"name": "lrp"})
    assert shades(still)[0].strength == 0
    assert shades(still)[0].mixed() == (255, 255, 255)


def test_plain_terminals_get_signs() -> None:
    found = terminal(explained("one two three four"), colour=False, width=100)
    assert "[+three]" in found or "[++three]" in found
    assert "[--four]°" in found or "[--four]" in found
    assert "relevance -0.286 + absorbed +0.250" in found.replace("\n", "")


def test_printing_and_notebooks(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    explanation = whence.explain(whence.load("sst-bilstm"), "A horrible film.")
    print(explanation)
    assert "horrible" in capsys.readouterr().out
    assert "horrible" in (explanation._repr_html_() or "")


def test_in_a_notebook_printing_gives_text(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    assert "relevance +0.286 + absorbed" in terminal(explained("one two three"), width=80)
    assert capsys.readouterr().out == ""


def test_a_list_of_explanations_is_a_list_that_shows_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    texts = [f"film number {n} ." for n in range(23)]
    found = whence.explain(whence.load("sst-bigru"), texts)
    assert isinstance(found, whence.Explanations) and isinstance(found, list)
    assert len(found) == 23 and found == list(found) and found[0].text == texts[0]
    assert isinstance(found[2:4], whence.Explanations) and [each.text for each in found[2:4]] == texts[2:4]
    assert repr(found) == str(found)
    plain = re.sub(r"[][+°-]", "", repr(found))
    monkeypatch.setattr("whence.render.html.SHOWN", 20)
    html = "".join(read(found._repr_html_() or "").text)
    for shown in (plain, html):
        assert "film number 19 ." in shown and "film number 20" not in shown
        assert "… and 3 more" in shown and "Explanation(" not in shown
        assert shown.count("LRP (ε = 0.001, δ = 0)") == shown.count("the target") == 1
    assert "more" not in repr(found[:20]) and "more" not in (found[:20]._repr_html_() or "")
    assert repr(whence.Explanations()) == "no explanations"
    assert "no explanations" in (whence.Explanations()._repr_html_() or "")


def test_explanations_of_one_text_stand_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    found = whence.explain(whence.load("sst-bigru"), ["good film", "bad film"], target="all")
    assert [[each.target for each in group] for group in found.groups()] == [list(found[0].scores)] * 2
    blocks = repr(found).split("\n\n")
    assert [block.count("film") for block in blocks] == [5, 5, 0]
    assert (found._repr_html_() or "").count('<span class="n head">0</span>') == 1
    assert isinstance(whence.explain(whence.load("sst-bigru"), "good", target="all"), whence.Explanations)


def rules(markup: str) -> list[tuple[str, str]]:
    """The selectors of the style sheets in a page, each with what it sets."""
    sheets = "".join(re.findall(r"<style>(.*?)</style>", markup, flags=re.DOTALL)).replace("@media print", "")
    found = re.findall(r"([^{}]+)\{([^{}]*)\}", sheets)
    return [(selector.strip(), body) for selectors, body in found for selector in selectors.split(",")]


def test_a_notebook_keeps_its_own_looks() -> None:
    found = rules(notebook(explained("one two three")))
    assert len(found) > 10
    assert [selector for selector, _ in found if not selector.startswith(".whence")] == []
    assert ":root" in [selector for selector, _ in rules(page([[explained("one")]]))]  # a page of its own is light or dark
    # Jupyter's rule for cells, which sets them to the right, names two classes and an element.
    assert [s.count(".") for s, body in found if "text-align" in body and s.endswith(("td", "td.n"))] == [3, 4]


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no pdflatex here")
def test_latex_compiles(tmp_path: Path) -> None:
    (tmp_path / "a.tex").write_text(latex([explained(text) for text in HOSTILE]), encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", "a.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout[-2000:].decode(errors="replace")
    assert (tmp_path / "a.pdf").stat().st_size > 1000


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("format", FORMATS)
def test_every_format_makes_a_string_of_groups(format: str, text: str) -> None:
    found = rendered([[explained(text)]], format)
    assert found.endswith("\n")
    assert "\x1b" not in found and "<script>" not in found.replace("\\u003c", "<").replace('"text": "<script>', "")


def test_the_legend_names_the_methods_without_a_sign() -> None:
    unsigned = replace(explained("a fine film"), method={"name": "<new>"}, is_signed=False)
    sensitivity = replace(unsigned, method={"name": "sa"})
    assert "sensitivity analysis has no sign" in rendered([[explained("a"), sensitivity]], "html")
    assert "sensitivity analysis and &lt;new&gt; have no sign" in rendered([[sensitivity, unsigned]], "html")
    assert "<new> has no sign" in " ".join(terminal(unsigned, colour=False, width=300).split())
    assert "no sign" not in rendered([[explained("a")]], "html")


@pytest.mark.parametrize("method", METHODS)
def test_every_method_is_shown_in_every_format(method: str) -> None:
    explanation = whence.explain("sst-bilstm", "not funny", method=method)
    assert explanation.is_signed == method_class(method).is_signed
    for format in FORMATS:
        found = rendered([[explanation]], format)
        assert "funny" in found
        if format in ("terminal", "html"):
            assert ("has no sign" in found) == (not explanation.is_signed)
            assert ("= score" in found) == bool(explanation.absorbed)
    assert method_class(method).adds_up or not explanation.absorbed
    assert bool(explanation.errors) == (method == "shapley")
    assert explanation.to_dict().get("errors", []) == list(explanation.errors)


def test_a_page_says_once_what_was_chosen() -> None:
    base = Explanation("a", ("a",), ((0, 1),), (False,), (1.0,), {"x": 1.0}, "x", "x", {"name": "lrp"}, choices=("softmax",))
    assert page([[base], [base]]).count("chosen: softmax") == 1
    assert page([[base]]).count("chosen: softmax") == 1 and str(base._repr_html_()).count("chosen: softmax") == 1


def test_json_lines_name_what_a_target_is_explained_against() -> None:
    base = Explanation("a", ("a",), ((0, 1),), (False,), (1.0,), {"x": 1.0, "y": 0.0}, "x", "x", {"name": "lrp"})
    lines = rendered([[base], [replace(base, versus="y", difference=1.0)]], "json").splitlines()
    assert [json.loads(line).get("versus") for line in lines] == [None, "y"]
