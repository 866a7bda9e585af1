"""The series tab in a real browser, with a real `whence serve` behind it."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote
from urllib.request import Request, urlopen

import pytest
import torch
from playwright.sync_api import Browser, Page, Route, expect
from torch import Tensor, nn

import whence
from tests.web.accessible import nameless, repeated_ids, scrolls_sideways
from tests.web.browser import serving, visiting

READY = '.series[aria-busy="false"]'


class EachStep(nn.Module):
    """An output for every step."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.lstm = nn.LSTM(2, 4, batch_first=True)
        self.linear = nn.Linear(4, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(self.lstm(x)[0])


def hourly() -> whence.SeriesModel:
    """A model of the reader's own, without names of features and outputs."""
    return whence.SeriesModel(EachStep(), name="hourly", step="hour")


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    with visiting(browser, f"{address}/#tab=series", viewport={"width": 1280, "height": 1000}) as found:
        ready(found)
        yield found


def ready(page: Page) -> None:
    page.wait_for_selector(READY)


def served(address: str) -> dict[str, Any]:
    """The series model that the page shows first."""
    with urlopen(f"{address}/api/models") as answer:
        models = json.load(answer)
    return next(model for model in models["models"] if model["name"] == models["default"]["series"])


def values(model: dict[str, Any]) -> list[list[float]]:
    return [[float(cell) for cell in line.split(",")[1:]] for line in model["example"].strip().splitlines()[1:]]


def asked(address: str, **request: Any) -> dict[str, Any]:
    """What the service itself answers about the example."""
    body = json.dumps({"values": values(served(address)), **request}).encode()
    with urlopen(Request(f"{address}/api/series", body, {"Content-Type": "application/json"})) as answer:
        return json.load(answer)


def shown(page: Page) -> dict[str, float]:
    """The outputs as the page has them."""
    cards = page.locator("#series-output [data-output]").all()
    return {str(card.get_attribute("data-output")): float(str(card.get_attribute("data-value"))) for card in cards}


def drag(page: Page, start: float, end: float) -> None:
    """Drag across the plot, from one share of its width to another."""
    plot = page.locator("#series-plot")
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    assert box is not None
    height = box["y"] + 60
    page.mouse.move(box["x"] + start * box["width"], height)
    page.mouse.down()
    page.mouse.move(box["x"] + end * box["width"], height, steps=6)
    page.mouse.up()
    ready(page)


def blanks(page: Page) -> list[dict[str, Any]]:
    """The blanks that the link to the view holds."""
    page.wait_for_timeout(400)
    return page.evaluate("""async () => (await import("/page/series/series.js")).state().blanks ?? []""")


def test_the_example_is_explained_at_once(page: Page, address: str) -> None:
    answer = asked(address)
    assert shown(page) == pytest.approx(answer["outputs"])
    assert page.locator(".series-name").all_text_contents() == [*answer["features"], "all features together"]
    total = float(str(page.locator("#series-ledger").get_attribute("data-sum")))
    assert total == pytest.approx(answer["score"], rel=1e-4)
    expect(page.locator("#series-ledger")).to_contain_text("the prediction")


def test_another_output_and_another_method(page: Page, address: str) -> None:
    outputs = served(address)["outputs"]
    page.locator(f'[data-output="{outputs[-1]}"]').click()
    ready(page)
    expect(page.locator(f'input[value="{outputs[-1]}"]')).to_be_checked()
    total = float(str(page.locator("#series-ledger").get_attribute("data-sum")))
    assert total == pytest.approx(asked(address, output=outputs[-1])["score"], rel=1e-4)
    page.select_option("#series-method", "sa")
    ready(page)
    expect(page.locator("#series-ledger")).to_contain_text("do not add up")
    expect(page.locator("#series-legend")).not_to_contain_text("against")
    page.select_option("#series-method", "gi")
    ready(page)
    expect(page.locator("#series-ledger")).to_contain_text("do not add up")
    assert page.locator("#series-ledger").get_attribute("data-sum") is None
    expect(page.locator("#series-ledger")).not_to_contain_text("not accounted for")


def test_a_drag_blanks_a_stretch_and_everything_moves(page: Page, address: str) -> None:
    before = shown(page)
    drag(page, 0.8, 0.9)
    (blank,) = blanks(page)
    assert shown(page) == pytest.approx(asked(address, blank=[blank])["outputs"])
    assert shown(page) != pytest.approx(before)
    expect(page.locator(".series-choice").first).to_contain_text("→")
    assert page.locator(".series-blanked").count() == 3
    page.click("#series-undo")
    ready(page)
    assert shown(page) == pytest.approx(before) and page.locator(".series-blanked").count() == 0
    page.click("#series-redo")
    ready(page)
    assert blanks(page) == [blank]
    page.click("#series-clear")
    ready(page)
    assert shown(page) == pytest.approx(before)


def test_a_click_on_a_blanked_stretch_brings_it_back(page: Page) -> None:
    drag(page, 0.5, 0.6)
    assert len(blanks(page)) == 1
    box = page.locator("#series-plot").bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + 0.55 * box["width"], box["y"] + 60)
    ready(page)
    assert blanks(page) == []
    drag(page, 0.5, 0.6)
    page.get_by_role("button", name="Bring back").click()
    ready(page)
    assert blanks(page) == []


def test_one_feature_can_be_blanked_alone(page: Page, address: str) -> None:
    page.select_option("#series-which", "0")
    drag(page, 0.7, 0.95)
    (blank,) = blanks(page)
    assert blank["features"] == [0]
    assert shown(page) == pytest.approx(asked(address, blank=[blank])["outputs"])
    assert page.locator(".series-blanked").count() == 1


def test_keys_move_the_cursor_select_and_blank(page: Page, address: str) -> None:
    steps = values(served(address))
    last = len(steps)
    plot = page.locator("#series-plot")
    plot.focus()
    page.keyboard.press("End")
    page.keyboard.press("ArrowLeft")
    assert plot.get_attribute("aria-valuenow") == str(last - 2)
    words = str(plot.get_attribute("aria-valuetext"))
    relevance = asked(address)["relevance"][-2]
    assert all(name in words for name in ("rain", "relevance", "together"))
    told = [float(number.replace("−", "-")) for number in re.findall(r"relevance ([+−]?[0-9.]+)", words)]
    assert told and told[0] == pytest.approx(relevance[0], rel=0.01, abs=0.006)
    for _ in range(3):
        page.keyboard.press("Shift+ArrowLeft")
    expect(page.locator("#series-blank")).to_be_visible()
    page.keyboard.press("Enter")
    ready(page)
    assert blanks(page) == [{"start": last - 5, "end": last - 1}]
    assert "blanked" in str(plot.get_attribute("aria-valuetext"))
    page.keyboard.press("Control+z")
    ready(page)
    assert blanks(page) == []
    page.keyboard.press(" ")
    page.keyboard.press("Escape")
    expect(page.locator("#series-blank")).to_be_hidden()


def test_moving_the_cursor_draws_nothing_again(page: Page) -> None:
    page.evaluate(
        "document.querySelectorAll('.series-line, .series-blanked, .series-choice').forEach((it) => (it.isKept = true))"
    )
    page.locator("#series-plot").hover()
    expect(page.locator(".series-reading").first).to_contain_text("relevance")
    expect(page.locator(".series-cursor")).to_have_class(re.compile("is-shown"))
    assert page.evaluate("[...document.querySelectorAll('.series-line, .series-choice')].every((it) => it.isKept)")


def test_pasted_values_are_read_or_refused_in_a_sentence(page: Page) -> None:
    before = shown(page)
    page.click("#series-paste")
    page.fill("#series-data", "rain;temperature;sunshine\n1,5;2;3\n4;;6")
    page.click("#series-use")
    expect(page.locator("#series-message")).to_have_text(
        "1 value is missing, in line 3, column temperature. Fill it in the file, or here:"
    )
    assert shown(page) == before
    page.fill("#series-data", "rain;temperature;sunshine\n1,5;2;3\n4;5;6")
    page.click("#series-use")
    ready(page)
    expect(page.locator("#series-source")).to_contain_text("Pasted values: 2 days")
    expect(page.locator("#series-message")).to_be_empty()
    assert shown(page) != pytest.approx(before)
    page.click("#series-example")
    ready(page)
    assert shown(page) == pytest.approx(before)


def test_a_file_with_hostile_labels_is_shown_as_text(page: Page) -> None:
    label = "<img src=x onerror=alert(1)>"
    text = f"date,rain,temperature,sunshine\n{label},1,2,3\nשלום,4,5,6\n"
    page.set_input_files("#series-file", {"name": "a.csv", "mimeType": "text/csv", "buffer": text.encode()})
    expect(page.locator("#series-source")).to_contain_text(f"a.csv: 2 days, {label} to שלום")
    ready(page)
    page.locator("#series-plot").focus()
    page.keyboard.press("Home")
    expect(page.locator(".series-tag")).to_have_text(label)
    assert page.locator("#panel-series img").count() == 0


def test_the_link_brings_back_output_blanks_and_data(page: Page, browser: Browser, address: str) -> None:
    page.click("#series-paste")
    page.fill("#series-data", "rain,temperature,sunshine\n1,2,3\n4,5,6\n7,8,9\n")
    page.click("#series-use")
    ready(page)
    page.locator("[data-output]").nth(1).click()
    ready(page)
    page.locator("#series-plot").focus()
    page.keyboard.press("End")
    page.keyboard.press("Enter")
    ready(page)
    expect(page).to_have_url(re.compile("blanks"))
    there = shown(page)
    with visiting(browser, page.evaluate("location.href")) as other:
        ready(other)
        expect(other.locator("[data-output]").nth(1).locator("input")).to_be_checked()
        assert shown(other) == pytest.approx(there)
        assert blanks(other) == [{"start": 2, "end": 3}]


@pytest.mark.parametrize(
    "state", [{"blanks": [{"start": -1, "end": 9e9}]}, {"output": "none"}, {"data": "x"}, {"last": "a"}, {"blanks": 3}]
)
def test_a_link_that_fits_nothing_shows_the_example(browser: Browser, address: str, state: dict[str, Any]) -> None:
    with visiting(browser, f"{address}/#tab=series&series={quote(json.dumps(state))}") as page:
        ready(page)
        assert shown(page) == pytest.approx(asked(address)["outputs"])
        assert blanks(page) == []


def test_a_long_series_stays_usable_and_out_of_the_link(page: Page) -> None:
    text = "rain,temperature,sunshine\n" + "".join(f"{n % 7},{n % 31 - 9},{n % 5}\n" for n in range(5000))
    page.set_input_files("#series-file", {"name": "long.csv", "mimeType": "text/csv", "buffer": text.encode()})
    expect(page.locator("#series-source")).to_contain_text("5000 days")
    page.wait_for_selector(READY, timeout=60_000)
    expect(page.locator("#series-legend")).to_contain_text("the strongest is shown")
    points = page.locator(".series-line").first.evaluate("(line) => line.getAttribute('d').split('L').length")
    assert points <= 4 * 1000  # four points for every pixel across
    page.select_option("#series-window", "90")
    page.locator("#series-plot").focus()
    page.keyboard.press("Home")
    assert page.locator("#series-plot").get_attribute("aria-valuenow") == "4910"
    state = page.evaluate("""async () => (await import("/page/series/series.js")).state()""")
    assert state["isLeftOut"] is True and "data" not in state


def test_the_download_holds_values_and_relevance(page: Page, address: str, tmp_path: Path) -> None:
    page.select_option("#series-which", "0")
    page.locator("#series-plot").focus()
    page.keyboard.press("End")
    page.keyboard.press("Enter")
    ready(page)
    (blank,) = blanks(page)
    answer = asked(address, blank=[blank])
    with page.expect_download() as download:
        page.click("#series-download")
    download.value.save_as(tmp_path / "found.csv")
    lines = (tmp_path / "found.csv").read_text("utf-8-sig").splitlines()
    assert lines[0] == "step,rain,temperature,sunshine,relevance of rain,relevance of temperature,relevance of sunshine,blanked"
    assert len(lines) == 1 + answer["steps"]
    last = lines[-1].split(",")
    assert float(last[1]) == answer["reference"][0] and last[-1] == "rain"
    assert [float(cell) for cell in last[4:7]] == pytest.approx(answer["relevance"][-1])


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_narrow_screen_does_not_scroll_sideways(browser: Browser, address: str, scheme: str) -> None:
    with visiting(browser, f"{address}/#tab=series", viewport={"width": 360, "height": 740}, color_scheme=scheme) as page:
        ready(page)
        drag(page, 0.5, 0.8)
        assert not scrolls_sideways(page)


def test_every_control_has_a_name_and_every_id_is_unique(page: Page) -> None:
    drag(page, 0.5, 0.8)
    assert nameless(page, "#panel-series") == []
    assert repeated_ids(page) == []


def test_a_refusal_of_the_service_shows_its_sentence_and_nothing_of_before(browser: Browser, address: str) -> None:
    def refuse(route: Route) -> None:
        route.fulfill(status=422, json={"error": "the series is refused."})

    with visiting(browser, f"{address}/#tab=series") as page:
        ready(page)
        page.route("**/api/series", refuse)
        page.click("#series-paste")
        page.fill("#series-data", "rain,temperature,sunshine\n1,2,3\n")
        page.click("#series-use")
        expect(page.locator("#series-message")).to_have_text("the series is refused.")
        ready(page)
        assert shown(page) == {} and page.locator("#series-ledger").inner_text() == ""


def test_a_model_without_an_example_waits_for_a_file(browser: Browser, address: str) -> None:
    def without_example(route: Route) -> None:
        models = route.fetch().json()
        for model in models["models"]:
            model.pop("example", None)
        route.fulfill(json=models)

    with visiting(browser, address) as page:
        page.route("**/api/models", without_example)
        page.goto(f"{address}/?again#tab=series")
        expect(page.locator("#series-source")).to_contain_text("brings no example. It reads rain, temperature, sunshine")
        expect(page.locator("#series-plot")).to_be_hidden()
        page.click("#series-paste")
        page.fill("#series-data", "rain,temperature,sunshine\n1,2,3\n")
        page.click("#series-use")
        expect(page.locator("#series-plot")).to_be_visible()
        ready(page)
        assert len(shown(page)) == 3


def test_the_strips_take_the_colours_of_the_theme(browser: Browser, address: str) -> None:
    with visiting(browser, f"{address}/#tab=series", color_scheme="light") as page:
        ready(page)
        picture = "document.querySelector('.series-strip').toDataURL()"
        light = page.evaluate(picture)
        page.click("#theme")
        assert page.evaluate(picture) != light
        page.click("#theme")
        assert page.evaluate(picture) == light


@pytest.fixture(scope="module")
def own() -> Iterator[str]:
    """A service with a model of the reader's own beside the bundled one."""
    with serving("--model", "tests.web.test_page_series:hourly") as found:
        yield found


@pytest.fixture
def hours(browser: Browser, own: str) -> Iterator[Page]:
    with visiting(browser, f"{own}/#tab=series", viewport={"width": 1280, "height": 1000}) as found:
        ready(found)
        yield found


def paste(page: Page, text: str) -> None:
    if page.locator("#series-data").is_hidden():
        page.click("#series-paste")
    page.fill("#series-data", text)
    page.click("#series-use")
    page.wait_for_timeout(100)
    ready(page)


def forty() -> str:
    return "time,a,b\n" + "".join(f"2003-04-{12 + n // 24} {n % 24:02}:00,{n % 7},{n % 5}\n" for n in range(40))


def test_many_outputs_are_a_menu_with_steps_counted_from_0_and_their_dates(hours: Page) -> None:
    paste(hours, forty())
    menu = hours.locator("#series-output-menu")
    assert menu.locator("option").count() == 40
    expect(menu.locator("option").first).to_contain_text("step 39 · 2003-04-13 15:00:")
    menu.select_option("step 3")
    expect(hours.locator('[data-output="step 3"]')).to_be_visible()
    expect(hours.locator("#series-ledger")).to_contain_text("step 3")
    paste(hours, "a,b\n1,2\n3,4\n5,6\n")  # three steps: the chosen one is not among them
    expect(hours.locator("#series-source")).to_contain_text("hour 0 to hour 2")
    assert list(shown(hours)) == ["step 2", "step 1", "step 0"]


def test_words_fit_the_step_and_the_reference(hours: Page) -> None:
    paste(hours, forty())
    expect(hours.locator("#series-legend")).to_contain_text("Relevance of one value")
    expect(hours.locator("#series-legend")).to_contain_text("all features of an hour together")
    expect(hours.locator("#series-notes")).not_to_contain_text("ordinary")


@pytest.mark.parametrize("width", [1280, 360])
def test_labels_of_hours_do_not_overlap_and_stay_inside(hours: Page, width: int) -> None:
    hours.set_viewport_size({"width": width, "height": 900})
    paste(hours, forty())
    places = hours.evaluate(
        """[...document.querySelectorAll(".series-axis text")].map((it) => {
            const {left, right} = it.getBoundingClientRect(); return [left, right, it.textContent]; })"""
    )
    plot = hours.locator("#series-plot").bounding_box()
    assert plot is not None and len(places) >= 2
    assert places[0][0] >= plot["x"] and places[-1][1] <= plot["x"] + plot["width"] + 1
    assert all(one[1] < other[0] for one, other in pairwise(places))
    assert [text for *_, text in places].count("12 Apr") == 1


def test_another_model_reads_the_same_file_or_says_why_not(hours: Page) -> None:
    text = "date,rain,temperature,sunshine\n2001-01-02,1,2,3\n2001-01-01,4,5,6\n"
    paste(hours, text)
    expect(hours.locator("#series-source")).to_contain_text("put in order of time")
    hours.select_option("#series-model", "river-lstm")
    expect(hours.locator("#series-source")).to_contain_text("Pasted values: 2 days, 2001-01-01 to 2001-01-02")
    ready(hours)
    paste(hours, "a,b\n1,2\n")
    expect(hours.locator("#series-message")).to_contain_text("The model reads 3 columns")
    hours.select_option("#series-model", "hourly")
    ready(hours)
    paste(hours, "a,b\n1,2\n3,4\n")
    hours.select_option("#series-model", "river-lstm")
    expect(hours.locator("#series-message")).to_contain_text("Your series does not fit river-lstm. The model reads 3 columns")
    ready(hours)
    expect(hours.locator("#series-source")).to_contain_text("Example: ")
    expect(hours.locator("#series-message")).not_to_be_empty()  # an answer does not take the sentence away
    state = hours.evaluate("""async () => (await import("/page/series/series.js")).state()""")
    assert "data" not in state
    hours.select_option("#series-model", "hourly")
    expect(hours.locator("#series-source")).to_contain_text("Pasted values: 2 hours")


def test_gaps_are_filled_only_by_a_button_and_the_link_knows(page: Page, browser: Browser) -> None:
    paste(page, "rain,temperature,sunshine\n1,2,3\n,5,\n7,8,9\n")
    expect(page.locator("#series-message")).to_contain_text("2 values are missing, the first in line 3, column rain")
    expect(page.locator("#series-source")).to_contain_text("Example")
    page.click("#series-fill-reference")
    ready(page)
    expect(page.locator("#series-source")).to_contain_text("2 missing values were filled with the reference value.")
    expect(page.locator("#series-gaps")).to_be_hidden()
    filled = shown(page)
    expect(page).to_have_url(re.compile("fill"))
    with visiting(browser, page.evaluate("location.href")) as other:
        ready(other)
        assert shown(other) == pytest.approx(filled)
    page.click("#series-example")
    ready(page)
    paste(page, "rain,temperature,sunshine\n1,2,3\n,5,\n7,8,9\n")
    page.click("#series-fill-before")
    ready(page)
    expect(page.locator("#series-source")).to_contain_text("filled with the value before")
    assert shown(page) != pytest.approx(filled)


def test_settings_of_lrp_change_the_relevance_and_the_link(page: Page, browser: Browser, address: str) -> None:
    page.click("#series-settings summary")
    page.fill("#series-epsilon", "5")
    page.fill("#series-delta", "1")
    expect(page).to_have_url(re.compile("epsilon"))
    ready(page)
    wanted = asked(address, epsilon=5, delta=1)
    total = sum(row[0] for row in wanted["relevance"])
    assert abs(total - sum(row[0] for row in asked(address)["relevance"])) > 0.1
    expect(page.locator("#series-ledger .amount").first).to_have_text(f"{total:+.1f}".replace("-", "−"))
    with visiting(browser, page.evaluate("location.href")) as other:
        ready(other)
        assert other.locator("#series-epsilon").input_value() == "5"
    page.select_option("#series-method", "sa")
    expect(page.locator("#series-settings")).to_be_hidden()


def test_the_json_is_the_services_own_answer(page: Page, address: str) -> None:
    with page.expect_download() as download:
        page.click("#series-json")
    assert json.loads(Path(download.value.path()).read_text("utf-8")) == asked(address, output="1 day")
    assert download.value.suggested_filename == "river-lstm-1-day-lrp.json"


@pytest.mark.parametrize("steps", [0, 3, 100])  # the example, values in the lines, values in the file
def test_the_lines_of_python_give_what_is_shown(page: Page, address: str, tmp_path: Path, steps: int) -> None:
    if steps:
        paste(page, "rain,temperature,sunshine\n" + "".join(f"{n % 7},{n % 31 - 9},{n % 5}\n" for n in range(steps)))
    page.locator("[data-output]").nth(1).click()
    page.select_option("#series-which", "0")
    page.locator("#series-plot").focus()
    page.keyboard.press("End")
    page.keyboard.press("Enter")
    page.click("#series-settings summary")
    page.fill("#series-epsilon", "0.5")
    expect(page).to_have_url(re.compile("epsilon"))
    ready(page)
    with page.expect_download() as download:
        page.click("#series-download")
    download.value.save_as(tmp_path / download.value.suggested_filename)
    page.click("#series-python")
    expect(page.locator("#series-python")).to_have_text("Copied")
    lines = page.evaluate("navigator.clipboard.readText()") + "print(repr(sum(row[1] for row in explanation.relevance)))"
    source = str(Path(whence.__file__).parents[1])
    found = subprocess.run(
        [sys.executable, "-c", lines], cwd=tmp_path, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": source}
    )
    assert found.returncode == 0, found.stderr
    with page.expect_download() as download:
        page.click("#series-json")
    answer = json.loads(Path(download.value.path()).read_text("utf-8"))
    assert f"{answer['output']!r}" in found.stdout
    assert float(found.stdout.split()[-1]) == pytest.approx(sum(row[1] for row in answer["relevance"]), rel=1e-6)


def test_what_was_absorbed_has_a_bar(page: Page) -> None:
    lines = page.locator("#series-ledger .line")
    expect(lines.last).to_contain_text("the prediction")
    assert lines.count() == page.locator("#series-ledger .step").count() > 4
