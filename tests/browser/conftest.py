"""A real browser without a screen: Chromium as it is installed, driven by Playwright, which downloads nothing."""

import os
import shutil
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import pytest

from tests.patience import PATIENCE

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
HERE = ("127.0.0.1", "localhost")
QUIET = ["--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run"]


def find_chromium() -> str | None:
    return os.environ.get("YOLOFAST_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)


@pytest.fixture(scope="package")
def browser() -> Iterator:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: make install")
    chromium = find_chromium()
    if chromium is None:
        pytest.skip("there is no Chromium: apt-get install chromium, or YOLOFAST_CHROMIUM=/path/to/it")
    root = hasattr(os, "geteuid") and os.geteuid() == 0  # its sandbox does not work for root
    with playwright.sync_playwright() as driver:
        launched = driver.chromium.launch(executable_path=chromium, args=[*QUIET, *(["--no-sandbox"] if root else [])])
        yield launched
        launched.close()


class Watched:
    """A page and what it did that nobody should do."""

    def __init__(self, context) -> None:
        self.foreign, self.errors, self.dialogs = [], [], []
        context.route(lambda address: not self._is_here(address), self._refuse)
        context.on("weberror", lambda error: self.errors.append(str(error.error)))
        context.on("console", self._console)
        context.on("dialog", self._dialog)
        context.set_default_timeout(1e3 * PATIENCE)
        self.page = context.new_page()

    def assert_harmless(self) -> None:
        assert (self.foreign, self.errors, self.dialogs) == ([], [], [])

    @staticmethod
    def _is_here(address: str) -> bool:
        parts = urlsplit(address)
        return parts.scheme in ("file", "data", "blob") or parts.hostname in HERE

    def _refuse(self, route) -> None:
        self.foreign.append(route.request.url)
        route.abort()

    def _console(self, message) -> None:
        """A connection that fails is a server that the test has ended; addresses elsewhere are counted as foreign."""
        if message.type == "error" and "Failed to load resource: net::" not in message.text:
            self.errors.append(message.text)

    def _dialog(self, dialog) -> None:
        self.dialogs.append(dialog.message)
        dialog.dismiss()


@pytest.fixture
def watched(browser) -> Iterator[Callable[..., Watched]]:
    """Opens a page in a context of its own; whatever it opened must have been harmless."""
    opened = []

    def make(**options) -> Watched:
        context = browser.new_context(viewport={"width": 1400, "height": 900}, **options)
        opened.append((context, Watched(context)))
        return opened[-1][1]

    yield make
    for context, one in opened:
        context.close()
        one.assert_harmless()
