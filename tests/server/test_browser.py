"""The web UI in a real browser: scripts, content security policy, keyboard, charts.

With ``CONFIDE_PICTURES=docs/pictures``, the tests update the screenshots in the docs.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, ViewportSize

from support.boards import declare_board
from support.browser import open_browser, open_context
from support.service import COUNT, House, build_house, serving

pytestmark = pytest.mark.slow
PICTURES = os.environ.get("CONFIDE_PICTURES")
QUESTION = "SELECT ward, COUNT(*) AS visits, AVG(age) AS mean_age FROM visits GROUP BY ward"
WARDS = ["North", "South", "East", "West"]
WIDE = ViewportSize(width=1000, height=900)
PHONE = ViewportSize(width=390, height=800)
PREDICTED = 8_000


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One browser for all tests in this module."""
    with open_browser() as opened:
        yield opened


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[House, str]]:
    """A server on a real socket."""
    house = build_house(tmp_path, wards=WARDS, people=2_000)
    with serving(house.app) as address:
        yield house, address


@pytest.fixture
def complaints() -> list[str]:
    """Errors that browsers reported."""
    return []


@pytest.fixture
def context(browser: Browser, complaints: list[str]) -> Iterator[BrowserContext]:
    """A separate browser context in light mode, which records every error."""
    opened = open_context(browser, viewport=WIDE, color_scheme="light")
    opened.on("console", lambda said: note(complaints, said))
    opened.on("weberror", lambda error: complaints.append(str(error.error)))
    yield opened
    opened.close()


def note(complaints: list[str], said: ConsoleMessage) -> None:
    """Record an error that the browser console reports.

    A preview request that a newer one supersedes is aborted, which is expected. On a slow machine,
    where a click takes a quarter of a second, the text typed before it triggers its own preview.
    """
    if said.type == "error" and "abort" not in said.text.lower():
        complaints.append(said.text)


def sign_in(page: Page, address: str, token: str) -> None:
    """Sign in with only the keyboard."""
    page.goto(address)
    page.wait_for_url("**/sign-in")
    page.wait_for_selector("input[name=token]:focus")
    page.keyboard.insert_text(token)
    page.keyboard.press("Enter")
    page.wait_for_url(f"{address}/")


def preview(page: Page, question: str = QUESTION, amount: str = "10%") -> None:
    """Enter a query and press the preview button."""
    page.fill("#sql", question)
    page.fill("#amount", amount)
    page.click("button[value=preview]")
    page.wait_for_selector("#preview .pay:enabled")


def pay(page: Page) -> None:
    """Press the pay button, and wait for the answer and its chart."""
    page.click("#preview .pay")
    page.wait_for_selector("#answer .chart[data-drawn]")


def take_picture(page: Page, name: str, *, whole: bool = True) -> None:
    """Save a screenshot for the docs, if ``CONFIDE_PICTURES`` is set."""
    if PICTURES:
        page.screenshot(path=f"{PICTURES}/page-{name}.png", full_page=whole)


def test_from_signing_in_to_an_empty_budget(
    served: tuple[House, str], context: BrowserContext, complaints: list[str]
) -> None:
    """Signing in, previewing, paying, repeating, and running out of budget match the ledger."""
    house, address = served
    page = context.new_page()
    page.goto(f"{address}/sign-in")
    take_picture(page, "sign-in", whole=False)
    sign_in(page, address, house.ana)

    preview(page)
    take_picture(page, "preview")
    assert "10% of the budget" in page.inner_text("#preview")
    assert 0 == house.curator.budget.spent.share

    pay(page)
    take_picture(page, "answer")
    assert 2 * len(WARDS) == page.locator("#answer .chart svg .mark-rule.role-mark line").count()
    assert "paid for with 10%" in page.inner_text("#answer")
    assert "40% of the total" in page.inner_text("#balance")
    assert 1 == page.locator("#balance").count()

    preview(page)
    pay(page)
    assert "Stored answer (free)" in page.inner_text("#answer header")
    assert "1/10" == str(house.curator.budget.spent.share)

    preview(page, QUESTION.replace("visits,", "v,"), "45%")
    page.click("#preview .pay")
    page.wait_for_selector("#outcome .refusal")
    assert "budget-exceeded" in page.inner_text("#outcome .refusal")
    assert "1/10" == str(house.curator.budget.spent.share)
    assert [] == complaints


def test_a_high_cost_is_confirmed_by_another_click(
    spending_guard: None, served: tuple[House, str], context: BrowserContext, complaints: list[str]
) -> None:
    """Above the owner's limit, the first click asks to confirm the price, and the second pays."""
    house, address = served
    page = context.new_page()
    sign_in(page, address, house.ana)
    preview(page, amount="30%")
    page.click("#preview .pay")
    page.wait_for_selector("#outcome .refusal")
    assert "needs confirmation" in page.inner_text("#outcome .refusal")
    assert 0 == house.curator.budget.spent.share

    page.click("#outcome .pay")
    page.wait_for_selector("#answer .chart[data-drawn]")
    assert "3/10" == str(house.curator.budget.spent.share)
    assert [] == complaints


def test_the_slider_previews_and_spends_nothing(
    served: tuple[House, str], context: BrowserContext, complaints: list[str]
) -> None:
    """Moving the slider by keyboard updates the amount and the preview, and spends nothing."""
    house, address = served
    page = context.new_page()
    sign_in(page, address, house.ana)
    preview(page, COUNT, "1%")
    before = page.inner_text("#preview")
    page.focus("#slider")
    for _ in range(8):
        page.keyboard.press("ArrowRight")
    page.wait_for_function(
        "old => document.querySelector('#preview')?.innerText !== old", arg=before
    )
    page.wait_for_selector("#preview .pay:enabled")
    for way in ("epsilon", "error"):
        page.select_option("#by", way)
        page.wait_for_selector(f"#outcome input[name=by][value={way}]", state="attached")

    assert 0 == house.curator.budget.spent.share
    assert [] == complaints


def test_history_and_budget_pages(
    served: tuple[House, str], context: BrowserContext, complaints: list[str]
) -> None:
    """Stored answers and the burn-down chart are drawn."""
    house, address = served
    curator = house.curator.as_analyst("ana")
    for age in (20, 40, 60):
        curator.sql(f"SELECT COUNT(*) AS n FROM visits WHERE age > {age}", share="3%")
    entry = curator.sql(QUESTION, share="10%").receipt.entry
    house.curator.as_analyst("ben").sql(QUESTION, share="10%")
    page = context.new_page()
    sign_in(page, address, house.ana)
    page.goto(f"{address}/history")
    take_picture(page, "history")
    page.click(f"a[href='/history/{entry}']")
    page.wait_for_selector(".chart[data-drawn]")
    page.goto(f"{address}/budget")
    page.wait_for_selector(".chart[data-drawn] svg .mark-line")
    take_picture(page, "budget")

    assert "31% of the total" in page.inner_text("main")
    assert [] == complaints


def test_the_owner_revokes_a_token(
    served: tuple[House, str], context: BrowserContext, browser: Browser, complaints: list[str]
) -> None:
    """The owner creates a token, verifies the ledger, and revokes it: the analyst is signed out."""
    house, address = served
    house.curator.as_analyst("ana").sql(QUESTION, share="10%")
    page = context.new_page()
    sign_in(page, address, house.owner)
    page.goto(f"{address}/owner")
    page.fill("input[name=name]", "ben")
    page.click("text=Create token")
    bens = page.inner_text("#made")
    analyst = open_context(browser).new_page()
    sign_in(analyst, address, bens)
    page.goto(f"{address}/owner?verify=true")
    take_picture(page, "owner")
    assert "The balance and the hash chain are consistent" in page.inner_text("main")
    page.click("button[aria-label='Revoke the token of ben'] >> nth=0")
    page.wait_for_selector("text=revoked")
    analyst.goto(f"{address}/budget")

    assert f"{address}/sign-in" == analyst.url
    assert house.tokens.find(bens) is None
    assert [] == complaints
    analyst.context.close()


def test_a_phone_in_the_dark(
    served: tuple[House, str], browser: Browser, complaints: list[str]
) -> None:
    """On a phone, no element is wider than the screen, and dark mode is dark."""
    house, address = served
    context = open_context(browser, viewport=PHONE, color_scheme="dark")
    page = context.new_page()
    page.on("console", lambda said: note(complaints, said))
    sign_in(page, address, house.ana)
    preview(page)
    pay(page)
    take_picture(page, "phone")
    for path in ("/", "/history", "/budget"):
        page.goto(f"{address}{path}")
        assert PHONE["width"] >= page.evaluate("document.documentElement.scrollWidth")
    colour = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    context.close()

    assert all(int(part) < 60 for part in colour.strip("rgb()").split(","))
    assert [] == complaints


def test_the_basic_ask_works_without_scripts(served: tuple[House, str], browser: Browser) -> None:
    """Without scripts, previews, payment, the table, and the chart work."""
    house, address = served
    context = open_context(browser, java_script_enabled=False, viewport=WIDE)
    page = context.new_page()
    sign_in(page, address, house.ana)
    page.fill("#sql", QUESTION)
    page.click("button[value=preview]")
    page.wait_for_selector("#preview")
    page.click("#preview .pay")
    page.wait_for_selector("#answer")

    assert page.locator("#answer noscript svg").count() or page.locator("#answer svg").count()
    assert "1/100" == str(house.curator.budget.spent.share)
    context.close()


def test_predictions_are_scored_on_the_board(
    tmp_path: Path, context: BrowserContext, complaints: list[str]
) -> None:
    """After a file of predictions is sent, the board shows the best score and submissions left."""
    board = declare_board(tmp_path, [row % 2 for row in range(PREDICTED)])
    right = "".join(f"{row},{row % 2}\n" for row in range(PREDICTED))
    (tmp_path / "predictions.csv").write_text(f"id,prediction\n{right}", encoding="utf-8")
    (tmp_path / "wrong.csv").write_text("id,prediction\n1,x\n", encoding="utf-8")
    house = build_house(tmp_path, wards=WARDS, boards=[board])
    with serving(house.app) as address:
        page = context.new_page()
        sign_in(page, address, house.ana)
        page.goto(f"{address}/boards")
        page.set_input_files("input[name=predictions]", tmp_path / "predictions.csv")
        page.click("form[action='/boards/digits'] button")
        page.wait_for_selector("text=Your submission improved it.")
        take_picture(page, "board")
        shown = page.inner_text("main")
        page.set_input_files("input[name=predictions]", tmp_path / "wrong.csv")
        page.click("form[action='/boards/digits'] button")
        page.wait_for_selector(".refusal")
        refused = page.inner_text(".refusal")
        page.wait_for_load_state("networkidle")  # finish loading before the server stops

    assert "999 submissions left" in shown
    assert "bad-argument" in refused
    assert [] == [text for text in complaints if "422" not in text]
