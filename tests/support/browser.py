"""A real browser for tests of the page: Debian's chromium, installed where it is missing."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Browser, BrowserContext, sync_playwright

from support.tree import ROOT

__all__ = ["open_browser", "open_context"]

PATIENCE = 300_000
"""Milliseconds after which something must be wrong, however busy the machine is."""

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
    """Yield a browser that fetches nothing by itself."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=_find(), args=QUIET, timeout=PATIENCE)
        try:
            yield browser
        finally:
            browser.close()


def open_context(browser: Browser, **options: Any) -> BrowserContext:
    """Return a window of its own, which waits long for what a page is to show."""
    opened = browser.new_context(**options)
    opened.set_default_timeout(PATIENCE)
    return opened


def _find() -> str:
    """Return the browser's program; try to install it, and say so where that fails."""
    if shutil.which("chromium") is None:
        subprocess.run([ROOT / "tools/install_program.sh", "chromium", "chromium"], check=True)
    found = shutil.which("chromium")
    if found is None:
        raise RuntimeError("the tests of the page need chromium; install it and try again")
    return found
