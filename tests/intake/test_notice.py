"""The page for the people in the data: its promise in numbers, and its two formats."""

import html
import math
from fractions import Fraction
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from confide.errors import BadDeclaration
from confide.intake.notice import guess_probability, write_notice
from confide.loss import PureLoss


def document_of(**changes: Any) -> dict[str, Any]:
    """Return the parts of a record that the page shows."""
    ledger = {
        "identity": "1f",
        "records": 4,
        "digest": "ab",
        "charges": 3,
        "releases": {"batches": 1, "queries": 2},
        "mechanisms": ["Laplace or K-norm noise"],
        "first": "2026-11-01",
        "last": "2026-11-19",
        "spent": {"share": "3/20", "epsilon": 0.3, "delta": 0.0},
    }
    document = {
        "created": "2026-11-19",
        "contact": "privacy@clinic.example",
        "people": "patients & <visitors>",
        "deployment": {
            "basic": {"name": "Visits | <b>", "intended_use": "plan staff"},
            "dp_variant": {"variant_name": "Pure DP", "unprotected_quantities": "Names."},
            "privacy_loss": {
                "privacy_unit": "One pid",
                "privacy_unit_details": "Units are added or removed (add-remove).",
                "privacy_parameters": {"epsilon": 2.0},
            },
            "accounting": {"composition": "A filter."},
        },
        "ledger": ledger,
        "signature": {"public_key": "KEY="},
    }
    return {**document, **changes}


@pytest.mark.parametrize("name", ["people.md", "people.html", "PEOPLE.HTML"])
def test_the_page_has_what_people_need(name: str) -> None:
    """Both formats name the purpose, the contact, what is spent, and what the numbers mean."""
    page = html.unescape(write_notice(document_of(), name))

    for words in ("plan staff", "privacy@clinic.example", "1 batch and 2 queries", "2026-11-01"):
        assert words in page
    assert "15" in page
    assert "57.45" in page
    assert "88.08" in page
    assert "if you are in it" in page
    assert "epsilon 2" in page


def test_the_page_fits_the_neighboring_relation() -> None:
    """Under "replace" the page promises nothing about being in the data."""
    document = document_of()
    document["deployment"]["privacy_loss"]["privacy_unit_details"] = "Replaced (replace)."
    page = write_notice(document, "people.md")

    assert "if your data were different" in page
    assert "if you are in it" not in page


def test_an_unused_budget_is_described() -> None:
    """Before the first answer, the page says so, and a guess is a coin toss."""
    document = document_of()
    document["ledger"] |= {"charges": 0, "releases": {}, "mechanisms": [], "first": None}
    document["ledger"]["spent"] = {"share": "0", "epsilon": 0.0, "delta": 0.0}
    page = write_notice(document, "people.md")

    assert "Nothing has been answered so far." in page
    assert "Mechanisms" not in page


def test_the_owner_s_words_cannot_break_the_page() -> None:
    """Text from the declaration is escaped in HTML, and stays one cell or line in Markdown."""
    document = document_of(contact="a\n\n# b | c", people="<script>alert(1)</script>")
    page, text = write_notice(document, "p.html"), write_notice(document, "p.md")
    tags = set()

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: object) -> None:
            tags.add(tag)

    Reader().feed(page)
    assert "script" not in tags
    assert "b" not in tags
    assert "\n# b" not in text


@pytest.mark.parametrize("name", ["people", "people.txt", "people.pdf"])
def test_other_formats_are_refused(name: str) -> None:
    """Only .md and .html can be written."""
    with pytest.raises(BadDeclaration, match=r"\.md or \.html"):
        write_notice(document_of(), name)


@given(epsilon=st.floats(0, 20), delta=st.floats(0, 1))
def test_the_probability_of_a_right_guess_is_an_upper_bound(epsilon: float, delta: float) -> None:
    """It is at least the exact value, at most 0.01% more, and never outside [1/2, 1]."""
    exact = (math.exp(epsilon) + delta) / (1 + math.exp(epsilon))
    found = guess_probability(epsilon, delta)

    assert Fraction(1, 2) <= found <= 1
    assert exact - 1e-9 <= float(found) <= exact + 1.01e-4


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_no_test_guesses_better(epsilon: float) -> None:
    """The best test of a pure loss reaches the bound and does not pass it."""
    delta = float(PureLoss(Fraction(epsilon).limit_denominator(10)).delta_above(Fraction(0)))
    best = 0.5 * (1 + delta)

    assert best <= float(guess_probability(epsilon, 0.0)) <= best + 1.01e-4
    assert np.isclose(best, math.exp(epsilon) / (1 + math.exp(epsilon)))
