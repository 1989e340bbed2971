"""A real browser for tests of the web UI: Debian's Chromium, installed if it is missing."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Browser, BrowserContext, sync_playwright

from support.tree import ROOT

__all__ = ["open_browser", "open_context"]

TIMEOUT = 300_000
"""A timeout in milliseconds that no step reaches, however busy the machine is."""

QUIET = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@contextmanager
def open_browser() -> Iterator[Browser]:
    """Yield a browser that makes no network requests of its own."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=_find(), args=QUIET, timeout=TIMEOUT)
        try:
            yield browser
        finally:
            browser.close()


def open_context(browser: Browser, **options: Any) -> BrowserContext:
    """Return a new browser context with a long timeout."""
    opened = browser.new_context(**options)
    opened.set_default_timeout(TIMEOUT)
    return opened


def _find() -> str:
    """Return the path of the browser, installing it if it is missing."""
    if shutil.which("chromium") is None:
        subprocess.run([ROOT / "tools/install_program.sh", "chromium", "chromium"], check=True)
    found = shutil.which("chromium")
    if found is None:
        raise RuntimeError("the tests of the page need chromium; install it and try again")
    return found
