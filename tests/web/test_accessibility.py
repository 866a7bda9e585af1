"""axe-core on every view of the page: nothing serious, in light and dark, on a desk and on a phone."""

from collections.abc import Callable, Generator

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

from tests.web.browser import browsing, serving, settled, visiting


@pytest.fixture(scope="module")
def place() -> Generator[tuple[str, Browser]]:
    with serving() as address, browsing() as browser:
        yield address, browser


def typed(page: Page) -> None:
    page.fill("#text", "It isn't <b>a waste</b> of time, zzyzx.")
    settled(page)


def deleted(page: Page) -> None:
    typed(page)
    page.click("#delete-next")
    settled(page)
    page.wait_for_selector("svg")
    page.evaluate("document.querySelectorAll('#panel-text details').forEach((part) => (part.open = true))")
    settled(page)


def series(page: Page) -> None:
    page.click("#tab-series")
    page.wait_for_selector("#panel-series canvas, #panel-series svg")


def corpus(page: Page) -> None:
    page.click("#tab-corpus")
    page.get_by_role("button", name="Try a sample").click()
    page.get_by_role("button", name="Explain", exact=False).last.click()
    page.wait_for_selector("tr[data-row]")


VIEWS: list[Callable[[Page], None]] = [typed, deleted, series, corpus]


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.__name__)
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (1280, "dark"), (375, "light")])
def test_axe_finds_nothing_serious(place: tuple[str, Browser], view: Callable[[Page], None], width: int, scheme: str) -> None:
    address, browser = place
    with visiting(browser, address, viewport={"width": width, "height": 800}, color_scheme=scheme, bypass_csp=True) as page:
        view(page)
        page.wait_for_timeout(400)  # colours move for a moment
        found = Axe().run(page).response["violations"]
    serious = [(each["id"], each["nodes"][0]["html"]) for each in found if each["impact"] in ("serious", "critical")]
    assert serious == []


def test_the_description_of_the_api_too(place: tuple[str, Browser]) -> None:
    address, browser = place
    with visiting(browser, f"{address}docs" if address.endswith("/") else f"{address}/docs", bypass_csp=True) as page:
        page.wait_for_selector("section, article, details")
        assert [
            each["id"] for each in Axe().run(page).response["violations"] if each["impact"] in ("serious", "critical")
        ] == []
