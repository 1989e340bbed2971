"""The web UI without scripts: forms, cookies, escaping, and access control."""

import hashlib
import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from confide.engines import DuckDB
from confide.errors import Fault
from confide.ledger import LostAnchor, SqlLedger
from confide.loss import Share
from confide.server.rendering import SERVER_FOLDER
from support.service import COUNT, House, open_house
from support.tree import ROOT

OWN = {"sec-fetch-site": "same-origin", "accept": "text/html"}
FORM = {"sql": COUNT, "by": "share", "amount": "1%"}


def sign_in(house: House, token: str) -> Any:
    house.client.cookies.clear()
    return house.client.post("/sign-in", data={"token": token}, headers=OWN, follow_redirects=False)


def post(house: House, path: str, form: dict[str, str], **headers: str) -> Any:
    return house.client.post(path, data=form, headers={**OWN, **headers}, follow_redirects=False)


def hidden(page: str) -> dict[str, str]:
    """Return the hidden fields of a page."""
    found = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', page)
    return {name: unescape(value) for name, value in found}


def test_the_page_needs_a_token(house: House) -> None:
    """Without a cookie, every page redirects to sign-in; a wrong token sets no cookie."""
    pages = ["/", "/history", "/history/0", "/history/0.csv", "/budget", "/owner"]
    seen = [house.client.get(page, headers=OWN, follow_redirects=False) for page in pages]
    wrong = sign_in(house, "confide-wrong")

    assert {(303, "/sign-in")} == {(one.status_code, one.headers["location"]) for one in seen}
    assert 401 == wrong.status_code
    assert "set-cookie" not in wrong.headers
    assert 200 == house.client.get("/sign-in").status_code


def test_the_cookie_works_only_for_the_web_ui(house: House) -> None:
    """The cookie is unavailable to scripts and other sites, and the API does not accept it."""
    cookie = sign_in(house, house.ana).headers["set-cookie"]

    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert 401 == house.client.get("/v1/budget").status_code


def test_two_clicks_without_scripts(house: House) -> None:
    """The first click previews for free; the second is charged once, even if sent twice."""
    sign_in(house, house.ana)
    preview = post(house, "/ask", FORM)
    assert 0 == house.curator.budget.spent.share
    assert "Pay 1% and run query" in preview.text
    fields = hidden(preview.text.split('id="preview"')[1])
    answer, again = post(house, "/ask", fields), post(house, "/ask", fields)

    assert "paid for with 1% of the budget" in answer.text
    assert "Stored answer (free)" in again.text
    assert "<svg" in answer.text.split("<noscript>")[1]
    assert "1/100" == str(house.curator.budget.spent.share)


def test_a_repeated_query_is_free_or_paid_for_again(house: House) -> None:
    """For a repeated query, one button shows the stored answer and another pays for a new one."""
    sign_in(house, house.ana)
    post(house, "/ask", hidden(post(house, "/ask", FORM).text.split('id="preview"')[1]))
    preview = post(house, "/ask", {**FORM, "amount": "2%"}).text
    fields = hidden(preview.split('id="preview"')[1])

    assert "Pay 2% for a new answer" in preview
    assert "Stored answer (free)" in post(house, "/ask", {**fields, "step": "ask"}).text
    assert "1/100" == str(house.curator.budget.spent.share)
    fields = hidden(post(house, "/ask", {**FORM, "amount": "2%"}).text.split('id="preview"')[1])
    assert "paid for with 2%" in post(house, "/ask", {**fields, "step": "fresh"}).text
    assert "3/100" == str(house.curator.budget.spent.share)


def test_a_possible_charge_keeps_its_key(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a fault, the page does not say that it was free; its button resumes the charge."""
    sign_in(house, house.ana)
    fields = hidden(post(house, "/ask", FORM).text.split('id="preview"')[1])
    with monkeypatch.context() as broken:
        broken.setattr(DuckDB, "run", lambda *_: (_ for _ in ()).throw(Fault("Mr Smith")))
        failed = post(house, "/ask", fields).text
    again = hidden(failed.split('id="outcome"')[1])

    assert "Nothing was read or spent" not in failed
    assert "Smith" not in failed
    assert fields == again
    assert "paid for with" in post(house, "/ask", again).text
    assert "1/100" == str(house.curator.budget.spent.share)


def test_the_page_shows_the_tokens_remaining_limit(house: House) -> None:
    """After an answer, the page shows the remaining budget of the token, not of the analyst."""
    text, _ = house.tokens.make("ana", limit=Share.floor("1/10"))
    sign_in(house, text)
    preview = post(house, "/ask", FORM).text
    answer = post(house, "/ask", hidden(preview.split('id="preview"')[1])).text

    assert "Your remaining budget: 10% of the total" in preview
    assert "Your remaining budget: 9% of the total" in answer


def test_a_long_answer_says_that_it_is_truncated(tmp_path: Path) -> None:
    """Beyond 500 rows, the page shows the number of rows and a link to the rest."""
    with open_house(tmp_path, wards=[f"w{place}" for place in range(501)]) as house:
        sign_in(house, house.ana)
        fields = hidden(post(house, "/ask", FORM).text.split('id="preview"')[1])

        assert "The first 500 of 501 rows" in post(house, "/ask", fields).text


def test_asking_without_a_preview_only_previews(house: House) -> None:
    """A form without the preview's key spends nothing, even with the step "ask"."""
    sign_in(house, house.ana)
    shown = post(house, "/ask", {**FORM, "step": "ask"})

    assert 'id="preview"' in shown.text
    assert 0 == house.curator.budget.spent.share


def test_html_in_values_is_escaped(house: House) -> None:
    """HTML in keys, names, and queries is escaped."""
    sign_in(house, house.ana)
    evil = {**FORM, "sql": COUNT.replace("AS n", 'AS "<img src=x onerror=alert(1)>"')}
    preview = post(house, "/ask", evil).text
    answer = post(house, "/ask", hidden(preview.split('id="preview"')[1])).text
    kept = house.client.get("/history", headers=OWN).text

    for page in (preview, answer, kept):
        assert "<img" not in page
        assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in answer


def test_a_refusal_is_shown_with_its_code(house: House) -> None:
    """A refusal is shown with its code, and the form keeps the query."""
    sign_in(house, house.ana)
    shown = post(house, "/ask", {**FORM, "sql": "SELECT MAX(age) FROM visits"}).text

    assert "<code>unsupported-query</code>" in shown
    assert "Nothing was read or spent." in shown
    assert "SELECT MAX(age) FROM visits</textarea>" in shown


@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "none"},
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {},
    ],
)
def test_other_sites_cannot_submit_forms(house: House, headers: dict[str, str]) -> None:
    """A form from another or an unknown site is refused, with or without a cookie."""
    sign_in(house, house.owner)
    paths = ["/ask", "/owner/tokens", "/owner/tokens/0123456789abcdef/revoke", "/sign-out"]
    answers = [house.client.post(path, data=FORM, headers=headers) for path in paths]

    assert {403} == {answer.status_code for answer in answers}


def test_own_forms_work_without_fetch_metadata(house: House) -> None:
    """A browser that sends only Origin can submit the forms."""
    sign_in(house, house.ana)
    answer = house.client.post("/ask", data=FORM, headers={"origin": "http://testserver"})

    assert 200 == answer.status_code


def test_history_shows_answers_again(house: House) -> None:
    """Stored answers are listed, shown, and downloaded for free; other analysts' are refused."""
    sign_in(house, house.ana)
    entry = house.post("/v1/query", {"sql": COUNT, "share": "1/100"}).json()["receipt"]["entry"]
    listed = house.client.get("/history", headers=OWN).text
    kept = house.client.get(f"/history/{entry}", headers=OWN).text
    table = house.client.get(f"/history/{entry}.csv", headers=OWN)
    sign_in(house, house.ben)
    theirs = house.client.get(f"/history/{entry}", headers=OWN)

    assert f'href="/history/{entry}"' in listed
    assert "Stored answer (free)" in kept
    assert "ward,n,n_low,n_high" == table.text.splitlines()[0]
    assert "attachment" in table.headers["content-disposition"]
    assert 403 == theirs.status_code
    assert "1/100" == str(house.curator.budget.spent.share)


def test_the_budget_page_adds_up(house: House) -> None:
    """The page shows the caller's remaining and total budget, and charts every charge."""
    for _ in range(2):
        house.post("/v1/query", {"sql": COUNT, "share": "1/10", "fresh": True})
    sign_in(house, house.ana)
    page = house.client.get("/budget", headers=OWN).text
    sign_in(house, house.owner)
    owners = house.client.get("/budget", headers=OWN).text

    assert "remaining budget: 30% of the total, out of 50%" in page
    assert 3 == unescape(page).count('"left": 0.')
    assert "Spending by analyst" in owners
    assert "remaining budget: 80% of the total, out of 100%" in owners


def test_the_owners_page_shows_lost_anchors(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """A loss that was accepted stands above the charges."""
    losses = [LostAnchor(3, 60_000_000, True, "a"), LostAnchor(7, 60_000_000, False, "b")]
    sign_in(house, house.owner)
    before = house.client.get("/owner", headers=OWN).text
    monkeypatch.setattr(SqlLedger, "lost_anchors", lambda _: losses)
    after = house.client.get("/owner", headers=OWN).text

    assert "anchor" not in before
    assert "Record 3, 1970-01-01 00:01" in after
    assert "named another anchor" in after
    assert "continued without an anchor" in after


def test_the_owners_page(house: House) -> None:
    """The owner can create and revoke tokens and verify the ledger; an analyst gets 403."""
    house.post("/v1/query", {"sql": COUNT, "share": "1/100"})
    sign_in(house, house.owner)
    made = post(house, "/owner/tokens", {"name": "ben", "role": "analyst", "days": "3"}).text
    text = re.search(r'<code id="made">([^<]+)</code>', made)
    assert text is not None
    token = house.tokens.find(text[1])
    assert token is not None
    wrong = post(house, "/owner/tokens", {"name": "b e n", "days": "x"}).text
    gone = post(house, f"/owner/tokens/{token.id}/revoke", {}).text
    ledger = house.client.get("/owner?verify=true", headers=OWN).text
    sign_in(house, house.ana)

    assert "1% by ana" in ledger
    assert text[1] not in gone
    assert "malformed-request" in wrong
    assert house.tokens.find(text[1]) is None
    assert "The balance and the hash chain are consistent." in ledger
    assert 403 == house.client.get("/owner", headers=OWN).status_code


def test_signing_out_forgets_the_token(house: House) -> None:
    """After signing out, the browser has no token."""
    sign_in(house, house.ana)
    post(house, "/sign-out", {})

    assert 303 == house.client.get("/", headers=OWN, follow_redirects=False).status_code


@pytest.mark.parametrize("vendor", [SERVER_FOLDER / "static" / "vendor", ROOT / "docs" / "vendor"])
def test_vendored_files_have_recorded_checksums(vendor: Path) -> None:
    """Every vendored file has the recorded checksum, and every package its license."""
    lines = (vendor / "SHA256SUMS").read_text(encoding="utf-8").splitlines()
    sums = {name: digest for digest, name in (line.split("  ", 1) for line in lines)}
    files = {
        str(path.relative_to(vendor)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in vendor.rglob("*")
        if path.is_file() and path.name not in ("SHA256SUMS", "README.md")
    }
    packages = {name.split("/")[0].split(".")[0] for name in files}

    assert files == sums
    assert packages
    assert [] == [one for one in packages if f"{one}.LICENSE.txt" not in files]


def test_templates_have_no_inline_scripts_or_styles() -> None:
    """The templates contain no inline scripts or styles."""
    for path in (SERVER_FOLDER / "templates").iterdir():
        text = path.read_text(encoding="utf-8")

        assert not re.search(r"<script(?![^>]* src=)|\son\w+=|\sstyle=|javascript:|hx-on", text)
        assert "|safe" not in text.replace("{{ drawing|safe }}", "")


@pytest.mark.parametrize("accept", ["application/json", "*/*", "application/json, */*;q=0.1"])
def test_a_program_learns_where_the_api_is(house: House, accept: str) -> None:
    """`GET /` answers a program with JSON whose links exist, and needs no token for that."""
    found = house.client.get("/", headers={"accept": accept}, follow_redirects=False)
    links = {name: link for name, link in found.json().items() if link.startswith("/")}

    assert 200 == found.status_code
    assert "Authorization: Bearer" in found.json()["message"]
    assert {"schema", "tables", "query", "sign_in"} <= links.keys()
    assert 200 == house.client.get(links["schema"]).status_code
    known = house.client.get(links["schema"]).json()["paths"]
    assert {links[name] for name in ("tables", "budget", "preview", "query")} <= known.keys()


def test_a_browser_is_led_to_the_page(house: House) -> None:
    """`GET /` leads a browser to sign in, and shows the page once it has."""
    headers = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
    before = house.client.get("/", headers=headers, follow_redirects=False)
    sign_in(house, house.ana)
    after = house.client.get("/", headers=headers, follow_redirects=False)
    program = house.client.get("/", headers={"accept": "application/json"})

    assert (303, "/sign-in") == (before.status_code, before.headers["location"])
    assert (200, "text/html") == (after.status_code, after.headers["content-type"].split(";")[0])
    assert "application/json" == program.headers["content-type"]


def test_a_preview_of_a_mean_shows_its_error_for_a_group_size(house: House) -> None:
    """The page shows the predicted error of a mean in a group of 1,000 rows."""
    sign_in(house, house.ana)
    page = post(house, "/ask", {**FORM, "sql": "SELECT AVG(age) AS m FROM visits"}).text

    assert "for a group of 1,000 rows, at 95% confidence" in page
