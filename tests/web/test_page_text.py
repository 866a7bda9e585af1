"""The text tab in a real browser, with a real `whence serve` behind it."""

import json
import math
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote
from urllib.request import Request, urlopen

import pytest
from playwright.sync_api import Browser, Page, expect

import whence
from tests.web.browser import serving, settled, visiting
from whence.methods.registry import METHODS, method_class

TEXT = "neither funny nor suspenseful nor particularly well-drawn ."
MARKUP = "<script>document.title='taken'</script> <img src=x onerror=alert(1)>"
HOSTILE = MARKUP + " \u202eevil\u202c \u0007 שלום עולם 👩\u200d👩\u200d👧 & \"'`${1}\n\tnot  bad"
CONTROLS = ("target", "method", "model", "versus", "compare")


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    with visiting(browser, address, viewport={"width": 1280, "height": 800}) as found:
        explain(found, TEXT)
        yield found


def explain(page: Page, text: str) -> None:
    page.fill("#text", text)
    settled(page)


def asked(address: str, **request: Any) -> dict[str, Any]:
    """What the service itself answers."""
    body = json.dumps({"texts": [TEXT], **request}).encode()
    with urlopen(Request(f"{address}/api/explain", body, {"Content-Type": "application/json"})) as answer:
        return json.load(answer)["explanations"][0]


def relevance(page: Page, place: str = "#heatmap") -> list[float]:
    return [float(each.get_attribute("data-relevance") or "nan") for each in page.locator(f"{place} [data-token]").all()]


def scores(page: Page) -> dict[str | None, float]:
    rows = page.locator("[data-class]").all()
    return {row.get_attribute("data-class"): float(row.get_attribute("data-score") or "nan") for row in rows}


def deleted(page: Page) -> list[int]:
    pressed = page.locator('#heatmap [aria-pressed="true"]').all()
    return [int(each.get_attribute("data-token") or -1) for each in pressed]


def test_the_words_show_what_the_service_answers(page: Page, address: str) -> None:
    answer = asked(address)
    assert relevance(page) == answer["relevance"]
    assert scores(page) == answer["scores"]
    assert page.get_attribute("[data-predicted]", "data-predicted") == answer["predicted"]
    assert page.inner_text("#heatmap .heatmap") == TEXT
    total = sum(answer["relevance"]) + sum(answer["absorbed"].values())
    assert float(page.get_attribute("#ledger", "data-sum") or "nan") == pytest.approx(
        total, abs=1e-9
    )  # same float64 terms, other order


def test_a_word_says_in_words_what_it_does(page: Page) -> None:
    label = page.get_attribute('[data-token="0"]', "aria-label") or ""
    assert re.fullmatch(r"neither, speaks (for|against) [a-z ]+, [+−]\d+\.\d\d", label)
    page.hover('[data-token="0"]')
    expect(page.locator("[role=tooltip]")).to_contain_text("speaks")


def test_a_word_without_relevance_speaks_for_nothing(page: Page) -> None:
    page.select_option("#model", "sst-char-gru")
    explain(page, "The cast is great, but the story never quite comes together.")
    shown = zip(relevance(page), page.locator("#heatmap [data-token]").all(), strict=True)
    labels = {value: str(token.get_attribute("aria-label")) for value, token in shown}
    nothing = [label for value, label in labels.items() if abs(value) < 0.005]
    assert nothing
    assert all(re.search(r", neither for nor against [a-z ]+, 0\.00$", label) for label in nothing)


def test_typing_explains_only_the_last_text(page: Page) -> None:
    page.fill("#text", "")
    page.type("#text", "a truly wonderful film", delay=15)
    settled(page)
    assert page.inner_text("#heatmap .heatmap") == "a truly wonderful film"
    assert "positive" in (page.get_attribute("[data-predicted]", "data-predicted") or "")


def test_what_is_typed_before_the_page_is_ready_stays(browser: Browser, address: str) -> None:
    with visiting(browser, "about:blank") as page:
        page.route("**/api/models", lambda route: (page.wait_for_timeout(600), route.continue_()))
        page.goto(address, wait_until="commit")
        page.fill("#text", "a good film")
        page.wait_for_selector("[data-token]")
        assert page.inner_text("#heatmap .heatmap") == "a good film"


def test_no_example_comes_under_the_fingers_of_who_writes_already(browser: Browser, address: str) -> None:
    with visiting(browser, "about:blank") as page:
        page.route("**/api/models", lambda route: (page.wait_for_timeout(600), route.continue_()))
        page.goto(address, wait_until="commit")
        page.focus("#text")
        expect(page.locator("#version")).to_contain_text("whence")  # now the page is ready
        page.keyboard.insert_text("a good film")
        page.wait_for_selector("[data-token]")
        assert page.input_value("#text") == "a good film"


def test_an_empty_text_is_no_error(page: Page) -> None:
    explain(page, "  \n ")
    expect(page.locator("#verdict")).to_contain_text("Type a sentence")
    assert page.inner_text("#message") == ""
    assert page.locator("[data-token]").count() == 0


def test_a_click_deletes_a_word_and_another_brings_it_back(page: Page, address: str) -> None:
    page.click('[data-token="0"]')
    settled(page)
    assert deleted(page) == [0]
    assert scores(page) == asked(address, deleted=[[0]])["scores"]
    assert (page.get_attribute('[data-token="0"]', "aria-label") or "").startswith("neither, deleted")
    page.click('[data-token="0"]')
    settled(page)
    assert deleted(page) == []
    assert scores(page) == asked(address)["scores"]


def test_a_click_that_comes_before_the_answer_is_kept(page: Page) -> None:
    page.fill("#text", "not a good film")
    page.click('[data-token="0"]')
    settled(page)
    assert deleted(page) == [0]
    assert page.inner_text("#heatmap .heatmap") == "not a good film"


def test_undo_and_redo_by_buttons_and_keys(page: Page) -> None:
    page.click('[data-token="0"]')
    page.click('[data-token="2"]')
    page.click("#undo")
    assert deleted(page) == [0]
    page.click("#redo")
    assert deleted(page) == [0, 2]
    page.keyboard.press("Control+z")
    page.keyboard.press("Control+z")
    assert deleted(page) == []
    page.keyboard.press("Control+Shift+z")
    assert deleted(page) == [0]
    page.click("#reset")
    assert deleted(page) == []
    settled(page)


def test_deleting_the_most_relevant_word_follows_the_whole_text(page: Page, address: str) -> None:
    answer = asked(address)
    order = sorted(range(len(answer["tokens"])), key=lambda n: -answer["relevance"][n])
    for count in (1, 2, 3):
        page.click("#delete-next")
        expect(page.locator('#heatmap [aria-pressed="true"]')).to_have_count(count)
    assert sorted(deleted(page)) == sorted(order[:3])
    expect(page.locator("#curve svg")).to_be_visible()
    settled(page)


def test_the_order_of_deletions_stays_with_its_class_and_says_so(page: Page, address: str) -> None:
    target = asked(address)["target"]
    expect(page.locator("#delete-next")).to_have_text("Delete the most relevant word")
    for count in (1, 2, 3):
        page.click("#delete-next")
        expect(page.locator('#heatmap [aria-pressed="true"]')).to_have_count(count)
    settled(page)
    expect(page.locator("#delete-next")).to_have_text(f"Delete the next for {target}")
    expect(page.locator("#curve > figcaption")).to_contain_text(f"The order is by relevance for {target}")
    page.click("#reset")
    expect(page.locator("#delete-next")).to_have_text("Delete the most relevant word")
    settled(page)


def test_the_curve_shows_what_the_model_says_now_also_off_the_curve(page: Page, address: str) -> None:
    page.click("#delete-next")
    page.click("#reset")
    page.click('[data-token="7"]')
    settled(page)
    answer = asked(address, deleted=[[7]])
    powers = {name: math.exp(score) for name, score in answer["scores"].items()}
    share = 100 * powers[asked(address)["target"]] / sum(powers.values())
    expect(page.locator("#curve .chart-legend")).to_contain_text(f"yours: 1 deleted, {share:.0f} %")
    middle = page.locator("#curve .chart-point").evaluate("point => Number(point.getAttribute('cy'))")
    assert middle == pytest.approx(10 + (220 - 34 - 10) * (1 - share / 100), abs=0.01)  # the chart's own margins


def test_class_method_model_and_versus(page: Page, address: str) -> None:
    page.click('[data-class="very positive"]')
    settled(page)
    assert page.input_value("#target") == "very positive"
    assert relevance(page) == asked(address, target="very positive")["relevance"]
    page.select_option("#versus", "rest")
    settled(page)
    assert relevance(page) == asked(address, target="very positive", versus="rest")["relevance"]
    page.select_option("#versus", "")
    page.select_option("#method", "sa")
    settled(page)
    assert relevance(page) == asked(address, target="very positive", method="sa")["relevance"]
    page.select_option("#model", "sst-bigru")
    settled(page)
    assert relevance(page) == asked(address, target="very positive", method="sa", model="sst-bigru")["relevance"]


def test_a_class_is_never_explained_versus_itself(page: Page, address: str) -> None:
    predicted = asked(address)["predicted"]
    assert page.locator(f'#versus option[value="{predicted}"]').is_disabled()
    page.select_option("#versus", "positive")
    settled(page)
    assert page.input_value("#target") == predicted
    page.click('[data-class="positive"]')
    settled(page)
    assert page.input_value("#versus") == ""
    assert page.inner_text("#message") == ""


def test_settings_reach_the_service(page: Page, address: str) -> None:
    page.click("#settings summary")
    page.fill("#setting-delta", "1")
    settled(page)
    assert relevance(page) == asked(address, delta=1.0)["relevance"]
    page.fill("#setting-delta", "")
    settled(page)
    assert relevance(page) == asked(address)["relevance"]


@pytest.mark.parametrize(("name", "wrong", "says"), [("delta", "7", "from 0 to 1"), ("epsilon", "-1", "of 0 or more")])
def test_a_setting_that_cannot_be_is_marked_and_not_sent(page: Page, address: str, name: str, wrong: str, says: str) -> None:
    page.click("#settings summary")
    field = page.locator(f"#setting-{name}")
    field.fill("0.5")
    settled(page)
    field.fill(wrong)
    settled(page)
    expect(field).to_have_attribute("aria-invalid", "true")
    expect(page.locator(f"#setting-{name}-note")).to_contain_text(f"{name} must be a number {says}")
    expect(page.locator("#message")).to_be_empty()
    assert relevance(page) == asked(address, **{name: 0.5})["relevance"]
    field.press("Control+a")
    field.press_sequentially("1e")
    expect(field).to_have_attribute("aria-invalid", "true")
    field.fill("1")
    expect(field).to_have_attribute("aria-invalid", "false")
    settled(page)
    assert relevance(page) == asked(address, **{name: 1.0})["relevance"]


def test_all_classes_as_small_pictures(page: Page) -> None:
    page.select_option("#target", "all")
    settled(page)
    assert page.locator(".multiple").count() == 5
    page.click(".multiple:has-text('very negative') button")
    settled(page)
    assert page.input_value("#target") == "very negative"
    assert page.locator(".multiple").count() == 0


def test_side_by_side_deletes_in_both(page: Page, address: str) -> None:
    page.select_option("#compare", "method:gi")
    settled(page)
    assert relevance(page, "#other") == asked(address, method="gi")["relevance"]
    page.click('#other [data-token="1"]')
    settled(page)
    assert deleted(page) == [1]
    assert relevance(page, "#other") == asked(address, method="gi", deleted=[[1]])["relevance"]


def test_side_by_side_with_a_model_that_reads_characters(page: Page) -> None:
    page.select_option("#compare", "model:sst-char-gru")
    settled(page)
    page.click('#heatmap [data-token="1"]')
    settled(page)
    gone = page.locator('#other [aria-pressed="true"]')
    assert "".join(gone.all_inner_texts()) == "funny"


def test_replacing_a_word_shows_before_and_after(page: Page) -> None:
    page.dblclick('[data-token="0"]')
    page.fill("#heatmap input", "very")
    page.keyboard.press("Enter")
    settled(page)
    assert page.input_value("#text") == TEXT.replace("neither", "very")
    assert deleted(page) == []
    assert page.inner_text("#before .heatmap") == TEXT
    page.click("#undo")
    settled(page)
    assert page.input_value("#text") == TEXT
    assert page.locator("#before .heatmap").count() == 0


def test_replacing_keeps_what_is_deleted(page: Page) -> None:
    page.click('[data-token="4"]')
    settled(page)
    page.focus('[data-token="0"]')
    page.keyboard.press("r")
    page.keyboard.type("it is not so")
    page.keyboard.press("Enter")
    settled(page)
    assert page.locator('#heatmap [aria-pressed="true"]').all_inner_texts() == ["nor"]
    assert deleted(page) == [7]
    assert page.evaluate("document.activeElement.dataset.token") == "0"


def test_a_phrase_is_weighed_as_a_whole(page: Page, address: str) -> None:
    page.click('[data-token="1"]')
    page.click('[data-token="1"]')
    page.locator('[data-token="2"]').click(modifiers=["Shift"])
    expect(page.locator(".card .effects")).to_contain_text("Deleting the phrase changes the score of")
    answer = asked(address)
    expect(page.locator(".card")).to_contain_text(f"{abs(answer['relevance'][1] + answer['relevance'][2]):.2f}")
    target = answer["target"]
    whole, together, first, second = (asked(address, target=target, deleted=[each])["score"] for each in ([], [1, 2], [1], [2]))
    interaction = (together - whole) - (first - whole) - (second - whole)
    expect(page.locator(".card .effects")).to_contain_text(f"{abs(interaction):.2f}")
    page.click("text=Delete the phrase")
    assert deleted(page) == [1, 2]
    settled(page)


def box(page: Page, place: str) -> dict[str, float]:
    found = page.locator(place).bounding_box()
    assert found is not None
    x, y, height = found["x"], found["y"], found["height"]
    return {"x": x, "y": y, "bottom": y + height}


def test_the_phrase_covers_nothing_and_lets_go(page: Page) -> None:
    page.select_option("#compare", "method:gi")
    settled(page)
    for let_go in (
        lambda: page.press("#text", "Escape"),
        lambda: page.select_option("#method", "sa"),
        lambda: page.click('[data-class="very positive"]'),
        lambda: page.select_option("#versus", "rest"),
    ):
        page.locator('[data-token="2"]').first.click(modifiers=["Shift"])
        expect(page.locator(".card")).to_be_visible()
        assert box(page, ".card")["y"] >= box(page, "#heatmap .heatmap")["bottom"]
        assert box(page, ".card")["bottom"] <= box(page, "#legend")["y"]
        let_go()
        expect(page.locator(".card")).to_be_hidden()
        settled(page)


def test_a_note_stays_off_the_headline_and_inside_the_margins(page: Page) -> None:
    page.hover('[data-token="0"]')
    note = box(page, "[role=tooltip]")
    assert note["y"] >= box(page, "#verdict")["bottom"]
    assert note["x"] >= box(page, "#heatmap")["x"]


def test_a_finger_taps_to_delete_and_holds_to_replace(browser: Browser, address: str) -> None:
    with visiting(browser, address, viewport={"width": 390, "height": 800}, has_touch=True, is_mobile=True) as page:
        explain(page, TEXT)
        expect(page.locator("#hint")).to_have_text("Tap a word to delete it, tap and hold to replace it.")
        place = box(page, '[data-token="1"]')
        point = {"x": place["x"] + 8, "y": place["y"] + 12}
        touch = page.context.new_cdp_session(page)
        touch.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [point]})
        expect(page.locator("#heatmap input")).to_be_focused()
        touch.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
        page.fill("#heatmap input", "sad")
        page.keyboard.press("Enter")
        settled(page)
        assert page.input_value("#text") == TEXT.replace("funny", "sad")
        assert deleted(page) == []
        page.tap('[data-token="0"]')
        settled(page)
        assert deleted(page) == [0]


def test_dragging_selects_and_deletes_nothing(page: Page) -> None:
    start, end = (page.locator(f'[data-token="{n}"]').bounding_box() for n in (0, 2))
    assert start is not None and end is not None
    page.mouse.move(start["x"] + 8, start["y"] + 12)
    page.mouse.down()
    page.mouse.move(end["x"] + 8, end["y"] + 12, steps=6)
    page.mouse.up()
    expect(page.locator(".token.selected")).to_have_count(3)
    assert deleted(page) == []


def test_the_ledger_adds_up_for_every_class(page: Page) -> None:
    for name in scores(page):
        page.select_option("#target", str(name))
        settled(page)
        total = float(page.get_attribute("#ledger", "data-sum") or "nan")
        assert total == pytest.approx(scores(page)[name], abs=1e-5)  # float32 sums in the model


def test_the_ledger_adds_up_as_it_is_shown(page: Page) -> None:
    for text in (TEXT, "The cast is great, but the story never quite comes together.", "a good film"):
        explain(page, text)
        for name in scores(page):
            page.select_option("#target", str(name))
            settled(page)
            shown = page.locator("#ledger .amount").all_inner_texts()
            *parts, total = (round(100 * float(amount.replace("−", "-"))) for amount in shown)
            assert sum(parts) == total, (text, name, shown)


def test_the_ledger_counts_every_word(page: Page) -> None:
    page.select_option("#model", "sst-char-gru")
    settled(page)
    values = relevance(page)
    for_it, against = (sum(sign * value >= 0.005 for value in values) for sign in (1, -1))
    silent = len(values) - for_it - against
    assert silent > 1
    expect(page.locator("#ledger .line").nth(0)).to_contain_text(f"characters for{for_it} of {len(values)}")
    expect(page.locator("#ledger .line").nth(1)).to_contain_text(f"{against} of {len(values)}; {silent} say nothing")


@pytest.mark.parametrize("method", METHODS)
def test_every_method_is_offered_and_only_a_true_sum_is_shown(page: Page, address: str, method: str) -> None:
    assert page.locator("#method option").evaluate_all("all => all.map((each) => each.value)") == list(METHODS)
    page.select_option("#method", method)
    settled(page)
    answer = asked(address, method=method)
    assert relevance(page) == answer["relevance"]
    total = page.get_attribute("#ledger", "data-sum")
    if not method_class(method).adds_up:
        assert total is None
        expect(page.locator("#ledger")).to_contain_text("not how the score of")
        expect(page.locator("#ledger .line")).to_have_count(0)
        return
    assert float(total or "nan") == pytest.approx(answer["score"], abs=1e-4)  # float32 sums, and an integral in points
    expect(page.locator("#ledger .line.total")).to_have_count(1)
    expect(page.locator("#ledger")).not_to_contain_text("not accounted for")


def test_a_text_that_is_too_long_for_a_method_is_refused_in_a_sentence(page: Page) -> None:
    page.select_option("#method", "shapley")
    explain(page, "good film " * 60)
    expect(page.locator("#message")).to_contain_text("runs the model many times")


def test_a_method_without_a_ledger_leaves_no_hole(page: Page) -> None:
    page.select_option("#method", "sa")
    settled(page)
    box = page.locator("#ledger").bounding_box()
    assert box is not None and box["height"] < 80


@pytest.mark.parametrize(("count", "names"), [(5, 5), (40, 40), (70, 0)])
def test_words_are_named_under_their_bars(page: Page, count: int, names: int) -> None:
    explain(page, "good " * count)
    page.click("#position summary")
    settled(page)
    expect(page.locator(".position-names bdi")).to_have_count(names)
    expect(page.locator(".position-hint")).to_have_count(0 if names else 1)


def test_reading_directions_are_shown_on_demand(page: Page) -> None:
    page.click("#position summary")
    settled(page)
    expect(page.locator(".position")).to_have_count(3)


def test_another_sentence_beside_the_first(page: Page) -> None:
    page.click("#second summary")
    page.fill("#second-text", "a truly wonderful film")
    settled(page)
    assert page.inner_text("#second-body .heatmap") == "a truly wonderful film"
    page.click("text=Swap the sentences")
    settled(page)
    assert page.input_value("#text") == "a truly wonderful film"
    assert page.input_value("#second-text") == TEXT


def test_a_link_restores_the_view(page: Page, browser: Browser, address: str) -> None:
    page.click('[data-token="1"]')
    page.select_option("#target", "negative")
    page.select_option("#versus", "rest")
    page.select_option("#compare", "method:gi")
    page.click("#settings summary")
    page.fill("#setting-epsilon", "0.01")
    settled(page)
    page.click("#permalink")
    expect(page.locator("#toast")).to_contain_text("Link copied")
    link = page.evaluate("navigator.clipboard.readText()")
    assert link == page.evaluate("document.querySelector('#permalink').href")
    with visiting(browser, link) as other:
        settled(other)
        other.wait_for_selector("[data-token]")
        assert other.input_value("#text") == TEXT
        assert deleted(other) == [1]
        assert [other.input_value(f"#{name}") for name in CONTROLS] == [page.input_value(f"#{name}") for name in CONTROLS]
        assert other.input_value("#setting-epsilon") == "0.01"
        assert relevance(other) == relevance(page)


def test_back_returns_to_the_view_before(page: Page, address: str) -> None:
    first = page.evaluate("document.querySelector('#permalink').href")
    page.evaluate("location.hash = '#tab=text&text=' + encodeURIComponent(JSON.stringify({text: 'a good film'}))")
    expect(page.locator("#text")).to_have_value("a good film")
    page.go_back()
    expect(page.locator("#text")).to_have_value(TEXT)
    assert first.startswith(address)


@pytest.mark.parametrize(
    "fragment",
    [
        "%",
        "tab=constructor&text=%7B%22__proto__%22%3A1%7D",
        "text=" + "%5B1%2C2%5D",
        "tab=text&text=%7B%22text%22%3A%22good%22%2C%22deleted%22%3A%5B99%2C%22x%22%2C-1%2C1e9%5D%2C%22model%22%3A%22none%22%2C%22delta%22%3A5%7D",
        "tab=text&text=%7B%22text%22%3A5%2C%22open%22%3A%7B%7D%2C%22selection%22%3A%5B5%2C1%2C2%5D%2C%22target%22%3A%5B%5D%7D",
        "series=%7B%7D&corpus=1&text=%22%22&&&==",
    ],
)
def test_an_odd_link_leaves_a_page_that_works(browser: Browser, address: str, fragment: str) -> None:
    with visiting(browser, f"{address}/#{fragment}", is_silent=False) as page:
        page.wait_for_selector("[data-token]")
        explain(page, "a good film")
        assert page.inner_text("#heatmap .heatmap") == "a good film"
        assert page.inner_text("#message") == ""


def test_a_link_says_what_it_asked_for_in_vain(browser: Browser, address: str) -> None:
    state = {"text": "good", "model": "<b>x</b>", "method": "magic", "target": "joy"}
    with visiting(browser, f"{address}/#tab=text&text={quote(json.dumps(state))}") as page:
        settled(page)
        note = page.locator("#link-note")
        expect(note).to_contain_text("The link asked for the model ‘<b>x</b>’, which is not offered here; sst-bilstm is shown.")
        expect(note).to_contain_text("the method ‘magic’, which is not offered here; LRP is shown.")
        expect(note).to_contain_text("the class ‘joy’, which is not offered here; the predicted class is explained.")
        assert note.locator("b").count() == 0
        explain(page, "a good film")
        expect(note).to_be_empty()


def test_a_link_that_deletes_words_that_are_not_there_says_so(browser: Browser, address: str) -> None:
    state = {"text": "a good film", "deleted": [1, 99]}
    with visiting(browser, f"{address}/#tab=text&text={quote(json.dumps(state))}") as page:
        expect(page.locator("#link-note")).to_contain_text("the whole text is shown")
        settled(page)
        assert deleted(page) == []
        expect(page.locator("#message")).to_be_empty()


def test_hostile_text_is_only_text(page: Page, address: str) -> None:
    explain(page, HOSTILE)
    shown = page.inner_text("#heatmap .heatmap")
    assert MARKUP in shown
    assert "\u202e" not in page.locator("#heatmap .heatmap").evaluate("box => box.textContent")
    assert page.title() == "whence: which words made the decision?"
    assert page.locator("#heatmap script, #heatmap img").count() == 0
    assert relevance(page) == asked(address, texts=[HOSTILE])["relevance"]


def test_python_gives_the_same_numbers(page: Page) -> None:
    explain(page, HOSTILE)
    page.click('[data-token="0"]')
    page.select_option("#target", "positive")
    page.select_option("#versus", "rest")
    page.click("#settings summary")
    page.fill("#setting-epsilon", "0.01")
    page.click("#python summary")
    settled(page)
    names: dict[str, Any] = {}
    exec(page.inner_text("#python-body code"), names)
    assert list(names["explanation"].relevance) == pytest.approx(relevance(page), abs=1e-6)  # one text or a batch: float32
    assert isinstance(names["explanation"], whence.Explanation)


def test_python_explains_every_sentence_for_its_own_prediction(page: Page, address: str) -> None:
    other = "a truly wonderful film"
    page.click("#second summary")
    page.fill("#second-text", other)
    page.select_option("#versus", "rest")
    page.dblclick('[data-token="0"]')
    page.fill("#heatmap input", "very")
    page.keyboard.press("Enter")
    settled(page)
    page.click("#python summary")
    names: dict[str, Any] = {}
    exec(page.inner_text("#python-body code"), names)
    texts = [TEXT.replace("neither", "very"), TEXT, other]
    answers = [asked(address, texts=[text], versus="rest") for text in texts]
    assert len({each["target"] for each in answers}) > 1
    for found, answer in zip(names["explanations"], answers, strict=True):
        assert found.text == answer["text"]
        assert list(found.relevance) == pytest.approx(answer["relevance"], abs=1e-6)  # one text or a batch: float32


def test_python_makes_a_model_of_your_own_as_the_service_says(browser: Browser, address: str) -> None:
    with visiting(browser, "about:blank") as page:

        def own(route: Any) -> None:
            found = route.fetch().json()
            found["models"][0]["python"] = ["from mytext import make", "pipeline = make()"]
            route.fulfill(json=found)

        page.route("**/api/models", own)
        page.goto(address)
        settled(page)
        page.click("#python summary")
        code = page.inner_text("#python-body code")
        assert code.startswith("import whence\nfrom mytext import make\n\npipeline = make()\nexplanation = whence.explain(")


def test_a_single_score_is_a_probability_of_its_own(browser: Browser, address: str) -> None:
    with visiting(browser, "about:blank") as page:

        def single(route: Any) -> None:
            found = route.fetch().json()
            for each in found["explanations"]:
                each.update(scores={"negative": -0.12}, predicted="negative", target="negative", score=-0.12)
            route.fulfill(json=found)

        page.route("**/api/explain", single)
        page.goto(address)
        settled(page)
        expect(page.locator("#verdict")).to_have_text("The model gives negative 47 %.")
        expect(page.locator("[data-class]")).to_contain_text("probability of negative")
        expect(page.locator("[data-class] .probability")).to_have_text("47 %")


@pytest.mark.parametrize("kind", ["html", "svg", "png", "latex", "json"])
def test_exports(page: Page, kind: str) -> None:
    page.click('[data-token="0"]')
    settled(page)
    with page.expect_download() as found:
        page.click(f"#export-{kind}")
    content = found.value.path().read_bytes()
    start = {"html": b"<!DOCTYPE html>", "svg": b"<svg", "png": b"\x89PNG", "latex": b"", "json": b'{"'}[kind]
    assert content.startswith(start)
    assert len(content) > 500
    if kind != "png":
        assert b"suspenseful" in content
    suffix = {"latex": "tex", "json": "jsonl"}.get(kind, kind)
    assert found.value.suggested_filename == f"whence-neither-funny-nor.{suffix}"


@pytest.mark.parametrize("kind", ["html", "svg", "latex", "json"])
def test_exports_hold_what_the_page_says_they_hold(page: Page, kind: str) -> None:
    page.click("#second summary")
    page.fill("#second-text", "a truly wonderful film")
    page.select_option("#compare", "method:gi")
    settled(page)
    expect(page.locator("#exports-note")).to_contain_text("SVG and PNG hold the first sentence.")
    expect(page.locator("#exports-note")).to_contain_text("What Gradient×Input says is in JSON Lines only.")
    with page.expect_download() as found:
        page.click(f"#export-{kind}")
    content = found.value.path().read_text("utf-8")
    assert ("wonderful" in content) == (kind != "svg")
    if kind == "json":
        lines = [json.loads(line) for line in content.splitlines()]
        assert [(each["text"], each["method"]["name"]) for each in lines] == [
            (TEXT, "lrp"),
            ("a truly wonderful film", "lrp"),
            (TEXT, "gi"),
        ]


def test_everything_works_by_keyboard(page: Page) -> None:
    page.focus("#text")
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.dataset.token") is not None:
            break
    assert page.evaluate("document.activeElement.dataset.token") == "0"
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    assert deleted(page) == [1]
    page.keyboard.press("End")
    page.keyboard.press("Space")
    assert deleted(page) == [1, 7]
    page.keyboard.press("Home")
    page.keyboard.press("Shift+ArrowRight")
    page.keyboard.press("Shift+ArrowRight")
    expect(page.locator(".token.selected")).to_have_count(3)
    page.keyboard.press("Escape")
    expect(page.locator(".token.selected")).to_have_count(0)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.dataset.token") is None
    page.keyboard.press("?")
    expect(page.locator("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("dialog")).to_be_hidden()
    settled(page)


def test_the_predicted_class_is_announced(page: Page) -> None:
    explain(page, "a truly wonderful film")
    predicted = page.get_attribute("[data-predicted]", "data-predicted")
    expect(page.locator("#announcer")).to_contain_text(f"The model says {predicted}")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_letters_are_easy_to_read_on_every_colour(browser: Browser, address: str, scheme: str) -> None:
    contrast = """boxes => {
      const light = text => { const [r, g, b] = text.match(/[\\d.]+/g).map(Number).map(v => v / 255)
        .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
      return boxes.map(box => { const style = getComputedStyle(box);
        const [high, low] = [light(style.color), light(style.backgroundColor)].sort((a, b) => b - a);
        return (high + 0.05) / (low + 0.05); }); }"""
    with visiting(browser, address, color_scheme=scheme, reduced_motion="reduce") as page:
        explain(page, "A great, bad, not so good and truly horrible film that I loved, hated and almost slept through.")
        assert min(page.locator("#heatmap [data-token]").evaluate_all(contrast)) >= 4.5


def test_the_theme_is_kept(browser: Browser, address: str) -> None:
    with visiting(browser, address, color_scheme="light") as page:
        settled(page)
        page.click("#theme")
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(23, 23, 26)"
        page.reload()
        settled(page)
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(23, 23, 26)"


@pytest.mark.parametrize("text", [TEXT, "x" * 10_000, "שלום עולם", HOSTILE])
def test_a_phone_never_scrolls_sideways(browser: Browser, address: str, text: str) -> None:
    with visiting(browser, address, viewport={"width": 360, "height": 740}) as page:
        explain(page, text)
        page.click("#position summary")
        page.click("#python summary")
        settled(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_a_text_over_the_limit_is_refused_in_a_sentence(page: Page) -> None:
    explain(page, "good " * 2100)
    expect(page.locator("#message")).to_contain_text("2000")
    explain(page, "a good film")
    expect(page.locator("#message")).to_be_empty()


def test_right_to_left_text_runs_that_way(page: Page) -> None:
    explain(page, "שלום עולם טוב")
    assert page.locator("#heatmap .heatmap").evaluate("box => getComputedStyle(box).direction") == "rtl"
    page.focus('[data-token="0"]')
    page.keyboard.press("ArrowLeft")
    assert page.evaluate("document.activeElement.dataset.token") == "1"


def test_a_busy_server_is_asked_again(browser: Browser, address: str) -> None:
    with visiting(browser, address, is_silent=False) as page:
        settled(page)
        answers = iter([429, 503])

        def busy(route: Any) -> None:
            status = next(answers, None)
            if status is None:
                route.continue_()
            else:
                route.fulfill(
                    status=status, headers={"Retry-After": "1"}, json={"error": "too many requests; try again in a moment"}
                )

        page.route("**/api/explain", busy)
        page.fill("#text", "a good film")
        expect(page.locator("#message")).to_contain_text("try again in a moment")
        expect(page.locator("#heatmap .heatmap")).to_have_text("a good film")
        expect(page.locator("#message")).to_be_empty()


def test_a_server_that_is_gone_is_named_and_waited_for(browser: Browser, address: str) -> None:
    with visiting(browser, address, is_silent=False) as page:
        settled(page)
        page.route("**/api/explain", lambda route: route.abort())
        page.fill("#text", "a good film")
        expect(page.locator("#message")).to_contain_text("is `whence serve` still running?")
        page.unroute("**/api/explain")
        expect(page.locator("#heatmap .heatmap")).to_have_text("a good film")


def test_a_token_is_asked_for_and_kept(browser: Browser) -> None:
    with serving("--token", "sesame") as address, visiting(browser, address, is_silent=False) as page:
        assert "not accepted" not in page.inner_text(".secret")
        page.fill("#token", "wrong")
        page.keyboard.press("Enter")
        expect(page.locator(".secret")).to_contain_text("That token was not accepted")
        page.fill("#token", "sesame")
        page.keyboard.press("Enter")
        page.wait_for_selector("[data-token]")
        page.reload()
        page.wait_for_selector("[data-token]")


def test_the_description_of_the_api_is_readable(browser: Browser, address: str) -> None:
    with visiting(browser, f"{address}/docs") as page:
        page.wait_for_selector(".route")
        assert "/api/explain" in page.inner_text("#routes")
