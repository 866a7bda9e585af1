"""The services that the tests of this folder share."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.web.browser import browsing, serving
from tests.web.running import Running

SHORT = "from whence.web import limits as l; l.HEADER_SECONDS = l.BODY_SECONDS = l.KEPT_SECONDS = l.SEND_SECONDS = 1.0"


@pytest.fixture(scope="session")
def service() -> Iterator[Running]:
    """The service as it is started by default."""
    running = Running()
    yield running
    assert running.stop() == 0, running.logged()
    assert "traceback" not in running.logged()  # no test of this folder may make it fail


@pytest.fixture(scope="session")
def hasty() -> Iterator[Running]:
    """A service that gives clients a second, not twenty."""
    running = Running(before=SHORT)
    yield running
    assert running.stop() == 0, running.logged()
    assert "traceback" not in running.logged()


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The address of a page that is served."""
    with serving() as found:
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser."""
    with browsing() as found:
        yield found
