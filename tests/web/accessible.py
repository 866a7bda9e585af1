"""What every tab owes its readers: named controls, unique ids, no sideways scrolling."""

from playwright.sync_api import Page

CONTROLS = ":is(button, input, select, textarea, progress, [role=slider])"


def nameless(page: Page, panel: str) -> list[str]:
    """The controls of a panel without label, aria-label or text."""
    return page.evaluate(
        """(place) => [...document.querySelectorAll(place)]
            .filter((it) => !(it.labels?.length || it.getAttribute("aria-label") || it.textContent.trim()))
            .map((it) => it.outerHTML)""",
        f"{panel} {CONTROLS}",
    )


def repeated_ids(page: Page) -> list[str]:
    """Ids that occur more than once in the page."""
    return page.evaluate(
        """() => {
            const ids = [...document.querySelectorAll("[id]")].map(({ id }) => id);
            return ids.filter((id, n) => ids.indexOf(id) !== n);
        }"""
    )


def scrolls_sideways(page: Page) -> bool:
    """Whether the page is wider than the screen."""
    return page.evaluate("document.documentElement.scrollWidth > innerWidth")
