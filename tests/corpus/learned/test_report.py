"""The page about a corpus: what it says, that it is self-contained, and that no text can break out of it."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

import whence
from tests.corpus.learned.making import Row, random_rows, rows_of, write
from tests.web.browser import browsing, visiting
from whence.corpus.learned.report import page, report
from whence.corpus.learned.words import words
from whence.errors import InputError

EVIL = ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "{{ 7 * 7 }}", "a\0b", "\u202eabc", "שלום", "\x1b[31m"]


class Tags(HTMLParser):
    """Collects the names and the attributes of all elements."""

    def __init__(self, content: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.attributes: set[str] = set()
        self.feed(content)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.attributes |= {name for name, _ in attrs}


def require_harmless(content: str) -> None:
    found = Tags(content)
    assert not found.names & {"script", "img", "link", "iframe", "object", "base", "form"}
    assert not {name for name in found.attributes if name.startswith("on")} and "src" not in found.attributes
    assert not re.search(r"https?://|url\(|@import", content)
    assert "\0" not in content and "\x1b" not in content and "\u202e" not in content


def test_the_page_says_what_the_functions_say(tmp_path: Path) -> None:
    rows = random_rows(200, longest=40, targets=("predicted",))
    out = write(tmp_path / "out", rows, labels=True, reasons={"no words": 3, "not text": 1})
    made = report(out, tmp_path / "report.html", count=4)
    assert made == tmp_path / "report.html"
    content = made.read_text(encoding="utf-8")
    require_harmless(content)
    for row in words(out, count=4).to_pylist():
        assert re.search(
            rf'<td class="w"[^>]*>{row["word"]}</td>.*?{re.escape(format(row[row["end"]], "+.3f").replace("-", "−"))}', content
        )
    for expected in (
        "200</b><span>texts explained",
        "no words",
        "LRP (ε = 0.001)",
        "negative → positive",
        "Suspected shortcuts",
    ):
        assert expected in content
    assert content.count("<polyline") == 2 and "of 200 predictions are right" in content


def test_the_page_names_its_source_and_every_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        row._replace(id=f"review {row.row}" if row.row % 2 else None)
        for row in random_rows(200, longest=40, targets=("predicted",))
    ]
    files = {"files": [{"name": f"{name}.csv"} for name in "abcde"]}
    out = write(tmp_path / "explained", rows, labels=True, source=files)
    monkeypatch.chdir(tmp_path)
    content, _ = page("explained")
    assert ">Corpus: explained; input: a.csv, b.csv, c.csv and 2 more files<" in content
    examples = content.partition('<h2 id="examples">')[2].partition('<h2 id="errors">')[0]
    told = re.findall(r'<div class="small">row (\d+)(?:, id review (\d+))?: predicted (\w+), score', examples)
    assert len(told) == 6 and all(rows[int(row)].predicted == predicted for row, _, predicted in told)
    assert all((row == number) if int(row) % 2 else not number for row, number, _ in told)
    first = words(out, count=1).to_pylist()[0]
    identity = f", id review {first['row']}" if first["row"] % 2 else ""
    assert f'title="row {first["row"]}{identity}: ' in content
    assert not re.search(r">[^<]*-\d", re.sub(r"<style>.*?</style>", "", content, flags=re.DOTALL))
    monkeypatch.chdir(out)
    assert ">Corpus: explained; input: a.csv" in page(".")[0]
    assert "; input: standard input<" in page(write(tmp_path / "piped", rows, source={"standard input": "csv"}))[0]


def test_a_file_is_replaced_only_if_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = write(tmp_path / "explained", random_rows(5))
    monkeypatch.chdir(tmp_path)
    assert report(out) == Path("report.html")
    Path("report.html").write_text("another")
    with pytest.raises(InputError, match=r"^report\.html is there already; name the file of this report \(--output\)"):
        report(out)
    assert Path("report.html").read_text() == "another"
    report(out, "report.html")
    assert "<!DOCTYPE html>" in Path("report.html").read_text(encoding="utf-8")


def test_real_explanations_make_a_page(tmp_path: Path) -> None:
    good, bad = ("fine", "moving", "funny", "great", "brilliant"), ("dull", "tedious", "silly", "bad", "awful")
    texts = [f"a {one} film , with a story that is not {two}" for kind in (good, bad) for one in kind for two in good]
    explanations = whence.explain("sst-bilstm", texts)
    labels = ["positive"] * 25 + ["very negative"] * 25
    out = write(tmp_path, rows_of(explanations, labels=labels), classes=whence.load("sst-bilstm").classes, labels=True)
    content, notes = page(out)
    assert notes == ()
    require_harmless(content)
    assert "50</b><span>texts explained" in content
    best = max(explanations, key=lambda each: each.score)
    assert all(f'title="{value:+.4f}"' in content for value in best.relevance)


@pytest.mark.parametrize(
    "rows",
    [[], [Row(0, ["word"], [0.0])], [Row(0, EVIL, [1.0, -1.0, 0.5, 0.1, 0.2, -0.3, 0.4])], [Row(0, ["x"] * 500, [0.1] * 500)]],
    ids=["empty", "one word", "evil", "long"],
)
@pytest.mark.parametrize("is_signed", [True, False])
def test_odd_corpora_make_a_page(tmp_path: Path, rows: list[Row], is_signed: bool) -> None:
    out = write(tmp_path, [row._replace(label="no class") for row in rows], labels=bool(rows), is_signed=is_signed)
    content, _ = page(out)
    require_harmless(content)
    assert content.rstrip().endswith("</html>") and "49" not in re.sub(r"<style>.*?</style>", "", content, flags=re.DOTALL)
    if not rows:
        assert "No text was explained" in content and "holds no explained text" in content
    elif not is_signed:
        assert "This method has no sign" in content


def test_class_names_cannot_break_the_page(tmp_path: Path) -> None:
    rows = [Row(n, ["a"] * 20, [1.0] * 20, EVIL[n], EVIL[n], (0.0,) * len(EVIL), EVIL[0]) for n in range(len(EVIL))]
    require_harmless(page(write(tmp_path, rows, classes=EVIL, labels=True))[0])


def test_the_page_fits_a_phone_and_both_colour_schemes(tmp_path: Path) -> None:
    rows = [*random_rows(100, longest=40, targets=("predicted",)), Row(500, ["x" * 300, *EVIL], [1.0] * 8, label="1")]
    made = report(write(tmp_path / "out", rows, labels=True), tmp_path / "report.html")
    with browsing() as browser:
        for scheme, width in (("light", 1200), ("dark", 390), ("light", 320)):
            options = {"color_scheme": scheme, "viewport": {"width": width, "height": 800}}
            with visiting(browser, made.as_uri(), **options) as shown:
                assert shown.evaluate("document.documentElement.scrollWidth <= innerWidth")
                ink, paper = (
                    shown.evaluate(f"getComputedStyle(document.body).{name}") for name in ("color", "backgroundColor")
                )
                assert ink != paper
                assert (sum(map(int, re.findall(r"\d+", paper)[:3])) < 200) == (scheme == "dark")
