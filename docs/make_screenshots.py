"""The pictures of the page in docs, taken from a real browser: `python docs/make_screenshots.py`.

It starts `whence serve` on a free port, and writes docs/figures/page-*.png. It needs Chromium, and playwright (extra `dev`).
"""

import sys
from pathlib import Path

from playwright.sync_api import Page

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from tests.web.browser import browsing, serving, settled, visiting  # noqa: E402 - the tests' server and browser

FIGURES = ROOT / "docs" / "figures"
SENTENCE = "neither funny nor suspenseful nor particularly well-drawn ."
DESK, PHONE = {"width": 1280, "height": 800}, {"width": 390, "height": 844}


def main() -> None:
    """Take all pictures."""
    with serving() as address, browsing() as browser:
        with visiting(browser, address, viewport=DESK, color_scheme="light") as page:
            asked(page, SENTENCE)
            save(page, "main")
            for _ in range(2):
                page.click("#delete-next")
                settled(page)
            save(page, "deletion", is_full=True)
        with visiting(browser, address, viewport=DESK, color_scheme="light") as page:
            page.click("#tab-series")
            page.wait_for_timeout(2500)
            save(page, "series", is_full=True)
            page.click("#tab-corpus")
            page.get_by_role("button", name="Try a sample").click()
            page.get_by_role("button", name="Explain", exact=False).last.click()
            page.wait_for_timeout(4000)
            save(page, "corpus")
        with visiting(browser, address, viewport=PHONE, device_scale_factor=2, color_scheme="light") as page:
            asked(page, SENTENCE)
            save(page, "phone")
        with visiting(browser, address, viewport=DESK, color_scheme="dark") as page:
            asked(page, SENTENCE)
            save(page, "dark")


def asked(page: Page, text: str) -> None:
    """Type a text, and wait for its explanation."""
    page.fill("#text", text)
    page.locator("#text").blur()
    settled(page)
    page.mouse.move(0, 0)
    page.wait_for_timeout(600)


def save(page: Page, name: str, *, is_full: bool = False) -> None:
    """Write one picture."""
    page.screenshot(path=FIGURES / f"page-{name}.png", full_page=is_full, animations="disabled")


if __name__ == "__main__":
    main()
