"""Commands of the analyst: preview and ask."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from confide.cli.remote import open_connection
from confide.cli.screen import percent, show_figures, show_paid
from confide.cli.session import check_writable, open_curator, warn_forgetful
from confide.errors import BadDeclaration
from confide.release.figures import NO_GROUP, Figures, figures_of, plain
from confide.release.formats import to_csv, to_json
from confide.release.svg import draw_chart

if TYPE_CHECKING:
    from confide.client import Connection
    from confide.curator import Curator

__all__ = ["Want", "answer_question", "explain_question", "preview_question"]


@dataclass(frozen=True, slots=True)
class Want:
    """What an answer may cost, or how near it must be, as it was typed."""

    epsilon: str | None
    share: str | None
    error: str | None
    confidence: str

    @property
    def is_said(self) -> bool:
        """Whether anything was said of cost or error."""
        return (self.epsilon, self.share, self.error) != (None, None, None)

    def given(self) -> dict[str, Any]:
        """Return the options that were typed, for the curator to read."""
        typed = {"epsilon": self.epsilon, "share": self.share, "error": self.error}
        named = {name: value for name, value in typed.items() if value is not None}
        if len(named) != 1:
            raise BadDeclaration(
                "say what the answer may cost by exactly one of --epsilon 0.1, --share 1% and "
                "--error 50 (the half-width wanted); confide preview shows what each would do"
            )
        return {**named, "confidence": self.confidence} if self.error is not None else named


def preview_question(
    console: Console, question: str, config: Path, want: Want, *, url: str | None = None
) -> None:
    """Print the cost of an answer and the half-width of each of its columns."""
    with _open(config, url) as asked:
        found = asked.preview(question, **want.given())
    table = Table(title="Before asking")
    table.add_column("column")
    table.add_column("95 % half-width", justify="right")
    for name, width in found.errors.items():
        known = "depends on the data" if width is None else f"{width:,.4g}"
        table.add_row(Text(plain(name)), known)
    console.print(table)
    cost = (
        f"would cost {percent(found.cost.share)} of the budget (epsilon {found.cost.epsilon:.4g})"
    )
    console.print(f"{cost}; noise: {', '.join(found.mechanisms)}", markup=False, highlight=False)


def explain_question(console: Console, question: str, config: Path, want: Want) -> None:
    """Print what a question would do, one sentence a line; nobody need say what it may cost."""
    supposed = want if want.is_said else replace(want, share="1%")
    found = open_curator(config).explain(question, **supposed.given())
    if not want.is_said:
        console.print("Supposed: --share 1%; or say --epsilon, --share or --error.")
    for sentence in found.sentences:
        console.print(f"- {plain(sentence)}", markup=False, highlight=False)


def answer_question(
    question: str,
    config: Path,
    want: Want,
    *,
    form: str,
    plot: Path | None,
    url: str | None = None,
    key: str | None = None,
    fresh: bool = False,
) -> None:
    """Ask, and write the answer to the standard output; remarks go to the other stream."""
    if plot is not None:
        _check_plot(plot)
    output, remarks = Console(), Console(stderr=True)
    with _open(config, url) as asked:
        answer = asked.sql(question, key=key, fresh=fresh, **want.given())
        match form:
            case "csv":
                output.file.write(to_csv(answer))
            case "json":
                output.file.write(to_json(answer))
            case _:
                show_figures(output, figures_of(answer))
        if not answer.rows:
            remarks.print(NO_GROUP, style="yellow", markup=False, highlight=False)
        show_paid(remarks, answer, asked.budget)
        warn_forgetful(remarks, getattr(asked, "ledger", None))
        if plot is not None:
            _write_plot(remarks, plot, figures_of(answer))


def _open(config: Path, url: str | None) -> "AbstractContextManager[Curator | Connection]":
    """Return whom to ask, for one block: the curator of a file, or a server."""
    return nullcontext(open_curator(config)) if url is None else open_connection(url)


def _check_plot(path: Path) -> None:
    """Refuse a file that cannot be drawn, before anything is paid."""
    if path.suffix not in (".svg", ".png"):
        raise BadDeclaration(f"--plot must be a .svg or .png file, got {path.name!r}")
    check_writable(path)
    if path.suffix == ".png":
        _converter()


def _write_plot(remarks: Console, path: Path, figures: Figures) -> None:
    noisy = figures.noisy_columns()
    if not noisy:
        remarks.print("the answer has no number to draw")
        return
    drawn = draw_chart(noisy[0], figures.labels(), figures.column(noisy[0]), paper="white")
    if path.suffix == ".svg":
        path.write_text(drawn, encoding="utf-8")
    else:
        path.write_bytes(_converter().svg_to_png(drawn, scale=2))


def _converter() -> Any:
    try:
        import vl_convert
    except ImportError:
        raise BadDeclaration(
            "a .png needs the package vl-convert-python; install it, or plot into a .svg file"
        ) from None
    return vl_convert
