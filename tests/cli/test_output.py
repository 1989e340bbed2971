"""Output fits the terminal, and a narrow terminal loses nothing."""

from io import StringIO

import pytest
from rich.console import Console

from confide.cli.output import make_table, name_options, print_message, show_figures
from confide.cli.owner import show_entries
from confide.ledger import Entry, MemoryLedger, QueryIdentity
from confide.loss import Share, auto_filter
from confide.release.formatting import Cell, Figures

TEXT = "SELECT " + ", ".join(f"SUM(column_{place}) AS total_{place}" for place in range(12))
FIGURES = Figures(
    ("ward", *(f"mean_{place}" for place in range(6))),
    tuple(
        (Cell(ward), *(Cell(1234 + place, 1200.0, 1300.0) for place in range(6)))
        for ward in ("north", "south")
    ),
)


def screen(width: int, *, is_terminal: bool = True) -> Console:
    """Return a console with the given width that records its output."""
    return Console(
        file=StringIO(), width=width, force_terminal=is_terminal, no_color=True, color_system=None
    )


def shown(console: Console) -> list[str]:
    """Return the lines printed on a console."""
    assert isinstance(console.file, StringIO)
    return console.file.getvalue().splitlines()


def entries() -> list[Entry]:
    """Return two charges, one with a long query."""
    ledger = MemoryLedger(auto_filter(2, 0))
    for text in (TEXT, "SELECT COUNT(*) AS n"):
        hold = ledger.reserve(QueryIdentity(text, "fingerprint", "ana"), Share.floor("5%"))
        ledger.commit(hold, {"steps": []})
    return list(ledger.entries())


@pytest.mark.parametrize("width", [60, 80, 100, 140])
def test_a_ledger_fits_the_screen(width: int) -> None:
    """No line is wider than the terminal, and the fields of an entry are on one line."""
    console = screen(width)
    show_entries(console, entries())
    lines = shown(console)

    assert width >= max(map(len, lines))
    assert 2 == sum("ana" in line and "5%" in line and "answered" in line for line in lines)
    assert TEXT in " ".join(" ".join(line.split()) for line in lines)


def test_a_ledger_in_a_file_has_a_question_a_line() -> None:
    """In a file, each query is on one line."""
    console = screen(80, is_terminal=False)
    show_entries(console, entries())

    assert TEXT in [line.strip() for line in shown(console)]


def test_a_ledger_without_charges_says_so() -> None:
    """An empty history is a sentence rather than a table without rows."""
    console = screen(80)
    show_entries(console, [])

    assert ["No charges yet."] == shown(console)


@pytest.mark.parametrize("width", [60, 80, 200])
def test_no_value_is_truncated(width: int) -> None:
    """Every value and every interval is shown in full on a terminal of any width."""
    console = screen(width)
    show_figures(console, FIGURES)
    whole = "\n".join(shown(console))

    assert width >= max(map(len, shown(console)))
    assert 2 * 6 == whole.count("1,200 to 1,300")
    for place in range(6):
        assert 2 == whole.count(Cell(1234 + place, 1200.0, 1300.0).text)
        assert f"mean_{place}" in whole
    assert "…" not in whole


def test_a_wide_cell_is_wrapped() -> None:
    """A word wider than its column is wrapped rather than truncated."""
    console, table = screen(40), make_table("a", "b")
    table.add_row("x" * 70, "y" * 70)
    console.print(table)
    whole = "".join(shown(console))

    assert (70, 70) == (whole.count("x"), whole.count("y"))


def test_messages_wrap_and_carets_stay_aligned() -> None:
    """A message fits the terminal, and a query stays aligned with its carets."""
    question, carets = "line 1: SELECT MAX(age) FROM visits WHERE age > 20 AND ward = 'A'", " " * 15
    message = f"{'words ' * 30}\n{question}\n{carets}^^^\n  line 3: {'more ' * 20}"
    console = screen(60)
    print_message(console, message, hang=2)
    lines = shown(console)

    place = lines.index(question)
    assert f"{carets}^^^" == lines[place + 1]
    assert 60 >= max(len(line) for line in lines if line != question)
    assert lines[1].startswith("  words")
    assert lines[-1].startswith("    more")


@pytest.mark.parametrize("text", [":heart: is no ward", "[red]A[/red]", "http://a 12 'B'"])
def test_no_text_is_changed(text: str) -> None:
    """Text that looks like an emoji code or like markup is printed unchanged."""
    console = screen(80, is_terminal=False)
    print_message(console, text, style="red")
    console.print(make_table(text, title=text))

    assert [text, text] == [line.strip() for line in shown(console)][:2]
    assert 3 == "\n".join(shown(console)).count(text)


def test_a_program_reads_a_message_as_one_line() -> None:
    """Output that is not a terminal has no line breaks, so that it can be searched."""
    console = screen(60, is_terminal=False)
    print_message(console, "words " * 30)

    assert 1 == len(shown(console))


def test_a_budget_in_a_message_is_not_an_option() -> None:
    """Keyword arguments become command-line options, but a budget in a message stays unchanged."""
    assert "say --epsilon or --share" == name_options("say epsilon= or share=")
    assert "--share 5% is too much" == name_options("share=5% is too much")
    for text in ("such as Budget(epsilon=1.0), got 2", "epsilon=2.5, delta=1e-08 is declared"):
        assert text == name_options(text)


@pytest.mark.parametrize(
    "quoted",
    ["'epsilon=1' is not a day", 'column "share=5" is unknown', r"got 'it\'s fresh=True', a text"],
)
def test_quoted_text_stays_unchanged(quoted: str) -> None:
    """An analyst's own quoted text stays unchanged, and options next to it are still renamed."""
    assert f"{quoted}; the analysts' way: say --share" == name_options(
        f"{quoted}; the analysts' way: say share="
    )
    assert "the ledger's --epsilon 2 is one's own" == name_options(
        "the ledger's epsilon=2 is one's own"
    )
