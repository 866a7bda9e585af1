"""A real server and a real browser for the tests of the page."""

import os
import shutil
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, sync_playwright

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]


@contextmanager
def serving(*arguments: str) -> Generator[str]:
    """`whence serve` on a free port; the address of its page."""
    command = [sys.executable, "-m", "whence", "serve", "--port", "0", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=os.environ.copy())
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert "http://" in line, f"the server said {line!r}"
        yield line[line.index("http://") :].strip()
    finally:
        process.terminate()
        process.communicate(timeout=30)


@contextmanager
def browsing() -> Generator[Browser]:
    """A browser; the test is skipped where none is installed."""
    if CHROMIUM is None:
        pytest.skip("chromium is not installed; install the system's package chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


@contextmanager
def visiting(browser: Browser, address: str, *, is_silent: bool = True, **options: object) -> Generator[Page]:
    """A page in a context of its own; unless `is_silent` is False, anything that the console reports fails the test."""
    context = browser.new_context(**options)  # pyright: ignore[reportArgumentType]
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = context.new_page()
    page.set_default_timeout(15_000)
    problems: list[str] = []

    def hear(message: ConsoleMessage) -> None:
        is_refusal = "responded with a status of 422" in message.text  # the browser reports every refusal of the service itself
        if message.type in ("error", "warning") and not is_refusal:
            problems.append(f"{message.type}: {message.text}")

    page.on("console", hear)
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.goto(address)
    yield page
    context.close()
    if is_silent:
        assert problems == []


def settled(page: Page) -> None:
    """Wait until the newest question is answered and colours have stopped moving."""
    page.wait_for_timeout(250)
    page.wait_for_selector('#result[aria-busy="false"]')
