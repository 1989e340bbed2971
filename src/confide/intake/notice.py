"""A page in plain words for the people in the data, written from a release record."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from html import escape
from pathlib import Path
from typing import Any, Final

from confide.errors import BadDeclaration
from confide.release import percent
from confide.release.formatting import plain

__all__ = ["guess_probability", "write_notice"]

REPLACE: Final = "(replace)"
SINGULAR: Final = {
    "batches": "batch",
    "choices": "choice",
    "watches": "watch",
    "estimates": "estimate",
    "holdout sessions": "holdout session",
    "queries": "query",
    "other releases": "other release",
}
STYLE: Final = (
    "body{font:1.05rem/1.6 system-ui,sans-serif;max-width:42rem;margin:2rem auto;padding:0 1rem;"
    "color-scheme:light dark}table{border-collapse:collapse}td{padding:.2rem .8rem .2rem 0;"
    "vertical-align:top;overflow-wrap:anywhere}h1,h2{line-height:1.25}"
)


@dataclass(frozen=True, slots=True)
class Section:
    """A heading with paragraphs, or with rows of a name and a value."""

    heading: str
    paragraphs: tuple[str, ...] = ()
    rows: tuple[tuple[str, str], ...] = ()


def write_notice(document: dict[str, Any], name: str) -> str:
    """Return the page as Markdown or HTML, by the ending of the file's name.

    Raises:
        BadDeclaration: the name ends in neither .md nor .html.
    """
    title = document["deployment"]["basic"].get("name") or "Your data"
    heading, sections = f"{title}: how privacy is protected", list(_sections(document))
    match Path(name).suffix.lower():
        case ".md":
            return _to_markdown(heading, sections)
        case ".html":
            return _to_html(heading, sections)
        case other:
            raise BadDeclaration(f"`--plain` must name a .md or .html file; got {other!r}.")


def guess_probability(epsilon: float, delta: float) -> Fraction:
    """Return the probability of guessing right, from all answers, whether one unit is in the data.

    Claim:   if a fair coin decides between two neighboring datasets, no observer of all answers
             finds out which one it is with a greater probability, up to rounding up.
    Why:     a test of one dataset against the other has error probabilities with
             a + exp(epsilon) b >= 1 - delta and the reverse, so a + b is at least
             2 (1 - delta) / (1 + exp(epsilon)). The guess is wrong with probability (a + b) / 2.
    Source:  [KOV17].
    Checked: tests/intake/test_notice.py.

    >>> float(guess_probability(0.0, 0.0)), float(guess_probability(math.log(3), 0.0))
    (0.5, 0.75)
    """
    wrong = (1 - delta) / (1 + math.exp(min(epsilon, 700.0)))
    return min(Fraction(math.ceil(round((1 - wrong) * 10_000, 6)), 10_000), Fraction(1))


def _sections(document: dict[str, Any]) -> Iterator[Section]:
    deployment, ledger = document["deployment"], document["ledger"]
    basic, loss = deployment["basic"], deployment["privacy_loss"]
    people = document.get("people") or "the people in this data"
    owner = ", ".join(basic.get("data_curators", ())) or "The owner of the data"
    yield Section(
        "What happens with the data",
        (
            f"{owner} answers statistical queries about {people}.",
            f"Purpose: {basic['intended_use']}",
            *([basic["description"]] if "description" in basic else []),
        ),
    )
    yield Section("What leaves the database", _describe_answers(ledger))
    yield Section("What this means for you", tuple(_describe_protection(loss, ledger)))
    yield Section(
        "What is not protected",
        (
            "Facts about groups. If the answers show that an illness is common in your town, this "
            "says something about you too, even if your data is not used.",
            f"Facts about the setup: {deployment['dp_variant']['unprotected_quantities']}",
            "Data that is stolen or passed on in another way. This page is about the answers only.",
        ),
    )
    yield Section("Questions", (f"Contact: {document['contact']}",))
    yield Section("For experts", rows=tuple(_describe_terms(document)))


def _describe_answers(ledger: dict[str, Any]) -> tuple[str, ...]:
    rule = (
        "Only statistics leave it, such as counts and averages. Random noise is added to each of "
        "them before anyone sees it. No row of data is ever shown."
    )
    if not ledger["charges"]:
        return rule, "Nothing has been answered so far."
    counts = [
        f"{count:,} {SINGULAR[kind] if count == 1 else kind}"
        for kind, count in ledger["releases"].items()
    ]
    listed = ", ".join(counts[:-1]) + (" and " if counts[1:] else "") + counts[-1]
    return rule, f"So far, the privacy budget paid for {listed} ({_period(ledger)})."


def _period(ledger: dict[str, Any]) -> str:
    first, last = ledger["first"], ledger["last"]
    return f"on {first}" if first == last else f"from {first} to {last}"


def _describe_protection(loss: dict[str, Any], ledger: dict[str, Any]) -> Iterator[str]:
    other = (
        "if your data were different"
        if REPLACE in loss["privacy_unit_details"]
        else "if your data were not there"
    )
    yield (
        "The noise hides what any one person contributes. Someone who sees all answers learns "
        f"almost the same about you as {other}. This holds whatever else they know."
    )
    parameters, spent = loss["privacy_parameters"], ledger["spent"]
    most = guess_probability(parameters["epsilon"], parameters.get("delta", 0.0))
    so_far = guess_probability(spent["epsilon"], spent["delta"])
    question = (
        "which data is yours" if REPLACE in loss["privacy_unit_details"] else "if you are in it"
    )
    yield (
        f"An example: a coin decides {question}, and someone tries to find out. Without answers, "
        f"they guess right in 50% of cases. With all answers so far, it is at most "
        f"{percent(so_far)}. It can never become more than {percent(most)}."
    )
    share = percent(Fraction(spent["share"]))
    yield (
        f"The software keeps count. {share} of the privacy budget is spent. When all of it is "
        "spent, no further query is answered."
    )
    yield (
        f"This protects {loss['privacy_unit'].lower()}. If you have several of these, each is "
        "protected separately, so your protection is weaker."
    )


def _describe_terms(document: dict[str, Any]) -> Iterator[tuple[str, str]]:
    deployment, ledger = document["deployment"], document["ledger"]
    parameters, spent = deployment["privacy_loss"]["privacy_parameters"], ledger["spent"]
    yield "Guarantee", deployment["dp_variant"]["variant_name"]
    yield "Privacy budget", ", ".join(f"{name} {value:g}" for name, value in parameters.items())
    yield "Spent", f"epsilon {spent['epsilon']:.4g}, delta {spent['delta']:g}"
    yield "Neighboring datasets", deployment["privacy_loss"]["privacy_unit_details"]
    yield "Accounting", deployment["accounting"]["composition"]
    if ledger["mechanisms"]:
        yield "Mechanisms", "; ".join(ledger["mechanisms"])
    yield "Ledger", f"{ledger['identity']}, {ledger['records']:,} records, {ledger['digest']}"
    yield "Signing key", f"{document['signature']['public_key']} (Ed25519)"
    yield "Date", document["created"]


def _to_markdown(heading: str, sections: list[Section]) -> str:
    lines = [f"# {_one_line(heading)}", ""]
    for section in sections:
        lines += [f"## {section.heading}", ""]
        for paragraph in section.paragraphs:
            lines += [_one_line(paragraph), ""]
        if section.rows:
            lines += ["| | |", "|---|---|"]
            cells = ((_one_line(name), _one_line(value)) for name, value in section.rows)
            lines += [f"| {name} | {value.replace('|', chr(92) + '|')} |" for name, value in cells]
            lines.append("")
    return "\n".join(lines)


def _to_html(heading: str, sections: list[Section]) -> str:
    parts = [
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(_one_line(heading))}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        f"<h1>{escape(_one_line(heading))}</h1>"
    ]
    for section in sections:
        parts.append(f"<h2>{escape(section.heading)}</h2>")
        parts += [f"<p>{escape(_one_line(text))}</p>" for text in section.paragraphs]
        rows = [
            f"<tr><td>{escape(_one_line(name))}</td><td>{escape(_one_line(value))}</td></tr>"
            for name, value in section.rows
        ]
        parts += ["<table>", *rows, "</table>"] if rows else []
    return "\n".join([*parts, "</body>\n</html>\n"])


def _one_line(text: str) -> str:
    return plain(" ".join(text.split()))
