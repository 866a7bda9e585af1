"""The corpus tab in a real browser, with a real `whence serve` behind it."""

import csv
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Route, expect

import whence
from tests.web.accessible import nameless, repeated_ids, scrolls_sideways
from tests.web.browser import visiting

SAMPLE = Path(whence.__file__).parent / "web" / "page" / "corpus" / "sample.csv"
HOSTILE = "<script>document.title='taken'</script> \u202eevil שלום <b>not</b> bad"


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    with visiting(browser, f"{address}/#tab=corpus", viewport={"width": 1280, "height": 900}) as found:
        found.wait_for_selector("#corpus-sample")
        yield found


def opened(page: Page, name: str, text: str | bytes) -> None:
    content = text.encode() if isinstance(text, str) else text
    page.set_input_files("#corpus-file", {"name": name, "mimeType": "text/plain", "buffer": content})


def explained(page: Page) -> None:
    """Wait until every text is answered; the table is there from the first answer on."""
    expect(page.locator("#corpus-table")).to_be_visible(timeout=60_000)
    expect(page.locator(".corpus-progress")).to_be_hidden(timeout=60_000)


def run(page: Page, name: str, text: str | bytes) -> None:
    opened(page, name, text)
    page.click("#corpus-start")
    explained(page)


def sample(page: Page) -> list[dict[str, str]]:
    page.click("#corpus-sample")
    explained(page)
    with SAMPLE.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def column(page: Page, name: str) -> list[str]:
    return [text.strip() for text in page.locator(f"td.corpus-{name}").all_text_contents()]


def texts_of(route: Route) -> list[str]:
    """What a request to the service asks about."""
    return json.loads(route.request.post_data or "{}")["texts"]


def saved(page: Page, button: str) -> str:
    with page.expect_download() as download:
        page.click(button)
    return Path(download.value.path()).read_bytes().decode("utf-8")


def test_the_sample_is_explained_as_the_library_explains_it(page: Page) -> None:
    rows = sample(page)
    found = whence.explain(whence.load("sst-bilstm"), [row["text"] for row in rows[:25]])
    assert column(page, "predicted") == [each.predicted for each in found]
    assert column(page, "text") == [row["text"] for row in rows[:25]]
    right = [row["label"] == each.predicted for row, each in zip(rows[:25], found, strict=True)]
    assert ["✓" in text for text in column(page, "label")] == right
    expect(page.locator("#corpus-summary")).to_contain_text(f"{len(rows)} texts explained")


def test_columns_sort_both_ways_and_say_so(page: Page) -> None:
    sample(page)
    head = page.locator("th.corpus-probability")
    page.click('[data-sort="probability"]')
    expect(head).to_have_attribute("aria-sort", "descending")
    numbers = [float(text.split()[0]) for text in column(page, "probability")]
    assert numbers == sorted(numbers, reverse=True)
    page.click('[data-sort="probability"]')
    expect(head).to_have_attribute("aria-sort", "ascending")
    numbers = [float(text.split()[0]) for text in column(page, "probability")]
    assert numbers == sorted(numbers)
    page.click('[data-sort="text"]')
    texts = [text.lower() for text in column(page, "text")]
    assert texts == sorted(texts)
    expect(head).not_to_have_attribute("aria-sort", "ascending")


def test_filters_and_pages(page: Page) -> None:
    rows = sample(page)
    assert page.locator("tr[data-row]").count() == 25
    page.get_by_role("button", name="Next page").click()
    assert column(page, "row") == [str(n) for n in range(26, len(rows) + 1)]
    page.fill("#corpus-words", "funny NOT")
    wanted = [row["text"] for row in rows if "funny" in row["text"].lower() and "not" in row["text"].lower()]
    assert column(page, "text") == wanted and wanted
    expect(page.locator("#corpus-shown")).to_have_text(f"{len(wanted)} of {len(rows)} rows")
    page.fill("#corpus-words", "")
    page.select_option("#corpus-predicted", "negative")
    assert set(column(page, "predicted")) == {"negative"}
    page.select_option("#corpus-predicted", "")
    page.select_option("#corpus-verdict", "wrong")
    assert all("✗" in text for text in column(page, "label"))


def test_words_of_a_class_have_their_mean_and_count(page: Page) -> None:
    rows = sample(page)
    pipeline = whence.load("sst-bilstm")
    found = [each for each in whence.explain(pipeline, [row["text"] for row in rows]) if each.predicted == "very positive"]
    means: dict[str, list[float]] = {}
    for each in found:
        for token, relevance in zip(each.tokens, each.relevance, strict=True):
            if any(letter.isalnum() for letter in token):
                means.setdefault(token.lower(), []).append(relevance)
    best = max(means, key=lambda word: sum(means[word]) / len(means[word]))
    page.select_option("#corpus-class", "very positive")
    first = page.locator("#corpus-lexicon tbody tr").first
    expect(first.locator("th")).to_have_text(f"{best} {len(means[best])}×")
    assert float(first.locator(".bar-number").inner_text()) == pytest.approx(sum(means[best]) / len(means[best]), abs=0.006)
    page.select_option("#corpus-minimum", "2")
    counts = [int(text.rstrip("×")) for text in page.locator("#corpus-lexicon th small").all_text_contents()]
    assert counts and min(counts) >= 2


@pytest.mark.parametrize(
    ("name", "text", "texts"),
    [
        ("a.txt", "good film\nbad film\n\n", ["good film", "bad film"]),
        ("a.csv", '\ufeffid;review;stars\r\n1;"good; very";4\r\n2;bad;0\r\n', ["good; very", "bad"]),
        ("a.tsv", "text\tlabel\ngood\tpositive\nbad\tnegative\n", ["good", "bad"]),
        ("a.jsonl", '{"sentence": "good", "y": 1}\n\n{"sentence": "bad"}\n', ["good", "bad"]),
        ("a.json", '[{"text": "good"}, "bad"]', ["good", "bad"]),
        (
            "a.csv",
            "1,a good film without a header at all that goes on for quite a while\n2,bad\n",
            ["a good film without a header at all that goes on for quite a while", "bad"],
        ),
        ("latin.txt", "caf\xe9".encode("latin-1"), ["café"]),
    ],
)
def test_files_of_every_kind_are_read(page: Page, name: str, text: str | bytes, texts: list[str]) -> None:
    run(page, name, text)
    assert column(page, "text") == texts


def test_labels_may_be_numbers_of_classes(page: Page) -> None:
    run(page, "a.csv", "text,label\na masterpiece,4\nawful and dull,4\nwhat,\n")
    assert [text.split()[-1] if text else "" for text in column(page, "label")] == ["✓", "✗", ""]


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("a.txt", b"", "a.txt is empty."),
        ("a.csv", b"text\n", "There is no text in the file."),
        ("a.txt", b"PK\x03\x04\x00\x00", "a.txt is not a text file."),
        ("a.jsonl", b'{"text": "x"}\n{oops\n', "Line 2 is not JSON. A .jsonl file has one object per line."),
        ("a.jsonl", b"3\n", "Line 1 is neither an object nor a text."),
        ("a.csv", b'text\n"open\n', "Line 2, column 1: the quote that opens here is never closed."),
        ("a.txt", b"x\n" * 5001, "The file has 5,001 rows; at most 5,000 are explained here."),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_in_one_sentence(page: Page, name: str, content: bytes, sentence: str) -> None:
    opened(page, name, content)
    expect(page.locator("#corpus-message")).to_contain_text(sentence)
    expect(page.locator("#corpus-start")).to_be_hidden()


def test_a_large_file_is_refused_before_it_is_read(page: Page, tmp_path: Path) -> None:
    (tmp_path / "large.txt").write_bytes(b"x" * 21_000_000)
    page.set_input_files("#corpus-file", tmp_path / "large.txt")
    expect(page.locator("#corpus-message")).to_have_text("large.txt has 21 MB; at most 20 MB are read here.")


def test_a_row_that_fails_keeps_its_place(browser: Browser, address: str) -> None:
    rows = [{"text": text} for text in ("good", "", "word " * 3000, "bad")]
    with visiting(browser, f"{address}/#tab=corpus", is_silent=False) as page:
        run(page, "a.jsonl", "\n".join(map(json.dumps, rows)))
        assert column(page, "row") == ["1", "2", "3", "4"]
        assert [bool(text) for text in column(page, "predicted")] == [True, False, False, True]
        expect(page.locator('tr[data-row="2"] .corpus-error')).to_have_text("There is no text in this row.")
        expect(page.locator('tr[data-row="3"] .corpus-error')).not_to_be_empty()
        expect(page.locator("#corpus-summary")).to_contain_text("2 could not be explained")


def test_a_busy_service_is_asked_again(browser: Browser, address: str) -> None:
    refused: list[str] = []

    def busy_once(route: Route) -> None:
        if refused or texts_of(route) != ["good", "bad"]:  # the text tab asks too
            route.fallback()
            return
        refused.append(route.request.url)
        route.fulfill(status=429, headers={"Retry-After": "1"}, json={"error": "The service is busy."})

    with visiting(browser, f"{address}/#tab=corpus", is_silent=False) as page:
        page.route("**/api/explain", busy_once)
        opened(page, "a.txt", "good\nbad")
        page.click("#corpus-start")
        expect(page.locator("#corpus-message")).to_have_text("The service is busy.")
        explained(page)
        assert refused and len(column(page, "predicted")) == 2
        expect(page.locator("#corpus-message")).to_be_empty()


def test_it_can_be_stopped_and_keeps_what_is_there(page: Page) -> None:
    asked: list[list[str]] = []

    def hold(route: Route) -> None:
        texts = texts_of(route)
        if texts[0] != "a good film":  # the text tab asks too
            route.fallback()
            return
        asked.append(texts)
        if len(asked) == 1:
            route.fallback()  # the others are never answered

    page.route("**/api/explain", hold)
    opened(page, "a.txt", "a good film\n" * 100)
    page.click("#corpus-start")
    expect(page.locator(".corpus-progress")).to_contain_text("32 of 100 texts")
    page.click("#corpus-cancel")
    explained(page)
    expect(page.locator("#corpus-summary")).to_contain_text("32 texts explained")
    expect(page.locator("#corpus-start")).to_be_enabled()
    assert max(map(len, asked)) <= 32


def test_a_row_opens_in_the_text_tab(page: Page) -> None:
    rows = sample(page)
    page.get_by_role("button", name="Open row 3 in the text tab").click()
    expect(page.locator("#panel-text")).to_be_visible()
    expect(page.locator("textarea#text")).to_have_value(rows[2]["text"])


def test_the_downloads_hold_what_is_shown(page: Page, browser: Browser, tmp_path: Path) -> None:
    run(page, "a.csv", f'text,label\n"{HOSTILE}",neutral\n=1+1 is a formula,<b>negative</b>\nplain,\n')
    lines = [json.loads(line) for line in saved(page, "#corpus-jsonl").splitlines()]
    assert [(line["row"], line["text"], line.get("label")) for line in lines] == [
        (1, HOSTILE, "neutral"),
        (2, "=1+1 is a formula", "<b>negative</b>"),
        (3, "plain", ""),
    ]
    total = sum(lines[0]["relevance"]) + sum(lines[0]["absorbed"].values())
    assert total == pytest.approx(lines[0]["score"], abs=1e-3)  # numbers of a float32 model

    cells = list(csv.DictReader(io.StringIO(saved(page, "#corpus-csv").removeprefix("\ufeff"), newline="")))
    assert [each["text"] for each in cells] == [HOSTILE, "'=1+1 is a formula", "plain"]
    assert json.loads(cells[0]["relevance"]) == lines[0]["relevance"]

    (tmp_path / "found.html").write_text(saved(page, "#corpus-html"), "utf-8")
    with visiting(browser, (tmp_path / "found.html").as_uri()) as document:
        assert document.locator("script, tbody b").count() == 0
        assert document.locator("tbody tr").count() == 3
        expect(document.locator("tbody tr").first).to_contain_text("<b>not</b> bad")
        assert document.title() == "whence: sst-bilstm"


def test_hostile_text_stays_text(page: Page) -> None:
    run(page, "<b>x<b>.csv", f'<i>text</i>,label\n"{HOSTILE}",<u>label</u>\n')
    assert page.title() != "taken" and page.locator("#panel-corpus :is(script, b, i, u)").count() == 0
    expect(page.locator("#corpus-source")).to_contain_text("<b>x<b>.csv")


def test_five_thousand_rows_stay_quick_to_sort_and_filter(page: Page) -> None:
    def answer(route: Route) -> None:
        texts = texts_of(route)
        one = {
            "tokens": ["x"],
            "spans": [[0, 1]],
            "unknown": [False],
            "relevance": [1.0],
            "score": 1.0,
            "scores": {"negative": 0.0, "positive": 1.0},
        }
        more = {"predicted": "positive", "target": "positive", "method": {"name": "lrp"}, "absorbed": {}, "model": "sst-bilstm"}
        route.fulfill(json={"explanations": [{"text": text, **one, **more} for text in texts]})

    page.route("**/api/explain", answer)
    run(page, "a.txt", "".join(f"x number {n}\n" for n in range(5000)))
    assert page.locator("tr[data-row]").count() == 25
    page.click('[data-sort="text"]')
    assert page.locator("tr[data-row]").count() == 25  # only a page of them is drawn
    page.fill("#corpus-words", "4999")
    assert column(page, "row") == ["5000"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_narrow_screen_does_not_scroll_sideways(browser: Browser, address: str, scheme: str) -> None:
    with visiting(browser, f"{address}/#tab=corpus", viewport={"width": 360, "height": 740}, color_scheme=scheme) as page:
        run(page, "a.csv", f'text,label\n"{HOSTILE * 3}",{"x" * 90}\n{"long" * 50},neutral\n')
        assert not scrolls_sideways(page)


def test_every_control_has_a_name_and_every_id_is_unique(page: Page) -> None:
    sample(page)
    assert nameless(page, "#panel-corpus") == []
    assert repeated_ids(page) == []


def test_the_csv_keeps_the_other_columns_of_the_file(page: Page) -> None:
    run(page, "a.csv", "id,text,score,label,source\nx1,good,3,positive,web\nx2,bad,,negative,=1+1\n")
    found = list(csv.DictReader(io.StringIO(saved(page, "#corpus-csv").removeprefix("\ufeff"), newline="")))
    assert [(row["id"], row["score in the file"], row["source"]) for row in found] == [("x1", "3", "web"), ("x2", "", "'=1+1")]
    assert [row["label"] for row in found] == ["positive", "negative"]
    assert all(float(row["score"]) for row in found)


def test_one_class_versus_the_rest_is_explained_in_every_row(page: Page) -> None:
    opened(page, "a.txt", "a good film\na bad film\n")
    page.select_option("#corpus-target", "negative")
    page.select_option("#corpus-versus", "rest")
    page.click("#corpus-start")
    explained(page)
    lines = [json.loads(line) for line in saved(page, "#corpus-jsonl").splitlines()]
    wanted = whence.explain(
        whence.load("sst-bilstm"), ["a good film", "a bad film"], target=whence.contrast("negative", "rest")
    )
    assert [(line["target"], line["versus"]) for line in lines] == [("negative", "rest")] * 2
    assert [line["score"] for line in lines] == pytest.approx([each.score for each in wanted], abs=1e-4)
    expect(page.locator(".corpus-key")).to_contain_text("Red words speak for “negative” versus the rest")
    expect(page.locator("#corpus-lexicon")).to_contain_text("“negative” versus the rest over the 2 texts;")
    assert page.locator("#corpus-class option").all_text_contents() == ["negative"]
    expect(page).to_have_url(re.compile("versus"))
    page.get_by_role("button", name="Open row 2 in the text tab").click()
    expect(page.locator("select#target")).to_have_value("negative")
    expect(page.locator("select#versus")).to_have_value("rest")


def test_a_long_text_is_cut_and_opens(page: Page) -> None:
    run(page, "a.txt", "a short one\n" + "a long and winding film " * 60)
    clamps = page.locator(".corpus-clamp")
    assert page.locator(".corpus-more").count() == 1
    height = float(clamps.nth(1).evaluate("(it) => it.clientHeight"))
    assert height < 120
    page.click(".corpus-more")
    expect(page.locator(".corpus-more")).to_have_text("less")
    assert clamps.nth(1).evaluate("(it) => it.clientHeight") > 2 * height
    expect(page.locator("#panel-corpus")).to_be_visible()  # the row itself was not opened


def test_what_is_announced_counts_as_the_summary_does(browser: Browser, address: str) -> None:
    with visiting(browser, f"{address}/#tab=corpus") as page:
        run(page, "a.jsonl", '{"text": "good"}\n{"text": ""}\n{"text": "bad"}\n')
        expect(page.locator("#corpus-summary")).to_contain_text("2 texts explained; 1 could not be explained")
        expect(page.get_by_text("2 of 3 texts explained", exact=True)).to_be_attached()


def test_the_web_page_keeps_a_class_on_one_line(page: Page, browser: Browser, tmp_path: Path) -> None:
    sample(page)
    (tmp_path / "found.html").write_text(saved(page, "#corpus-html"), "utf-8")
    with visiting(browser, (tmp_path / "found.html").as_uri(), viewport={"width": 700, "height": 900}) as document:
        cells = document.locator("td.c")
        assert cells.count() >= 2 * 40
        heights = cells.evaluate_all(
            "(all) => all.map((it) => { const r = document.createRange(); r.selectNodeContents(it);"
            " return r.getClientRects().length; })"
        )
        assert set(heights) == {1}


def test_a_narrow_screen_sorts_by_a_menu(browser: Browser, address: str) -> None:
    with visiting(browser, f"{address}/#tab=corpus", viewport={"width": 360, "height": 740}) as page:
        sample(page)
        expect(page.locator("#corpus-table thead")).to_be_hidden()
        page.select_option("#corpus-sort", "probability down")
        numbers = [float(text.split()[0]) for text in column(page, "probability")]
        assert numbers == sorted(numbers, reverse=True)


def test_the_menu_for_sorting_is_for_narrow_screens_only(page: Page) -> None:
    sample(page)
    expect(page.locator("#corpus-sort")).to_be_hidden()
