"""Commands for analysts: `preview`, `explain`, and `sql`."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from confide.cli.context import check_writable, open_connection, warn_without_ledger
from confide.cli.output import (
    make_table,
    name_options,
    percent,
    print_message,
    show_figures,
    show_paid,
)
from confide.curator import Curator
from confide.errors import BadArgument
from confide.release.answer import GROUP_SIZE
from confide.release.display import import_converter
from confide.release.formatting import (
    NO_GROUP,
    Figures,
    draw_chart,
    figures_of,
    plain,
    to_csv,
    to_json,
)

if TYPE_CHECKING:
    from confide.client import Connection

__all__ = ["PriceOptions", "answer_query", "explain_query", "preview_query"]


@dataclass(frozen=True, slots=True)
class PriceOptions:
    """The price options of a command, as typed."""

    epsilon: str | None
    share: str | None
    error: str | None
    confidence: str

    @property
    def is_given(self) -> bool:
        """Whether a cost or an error was given."""
        return (self.epsilon, self.share, self.error) != (None, None, None)

    def given(self) -> dict[str, Any]:
        """Return the options that were typed, as keyword arguments for the curator."""
        typed = {"epsilon": self.epsilon, "share": self.share, "error": self.error}
        named = {name: value for name, value in typed.items() if value is not None}
        if len(named) != 1:
            raise BadArgument(
                "Pass exactly one of `--epsilon 0.1`, `--share 1%`, and `--error 50` (the target "
                "margin of error) to set the cost. `confide preview` shows the effect of each."
            )
        return {**named, "confidence": self.confidence}


def preview_query(
    console: Console, query: str, config: Path, want: PriceOptions, *, url: str | None = None
) -> None:
    """Print the cost of an answer and the half-width of each column."""
    with _open(config, url) as asked:
        found = asked.preview(query, **_default_price(console, want).given())
    level = f"{100 * found.confidence:.12g}%"
    if found.errors:
        width = f"margin of error ({level})"
        table = make_table("column", width, title="Preview", right=(width,))
        for name, half in found.errors.items():
            size = found.group_errors.get(name)
            if half is not None:
                known = f"{half:,.4g}"
            elif size is not None:
                known = f"about {size:,.4g} for {GROUP_SIZE:,} rows"
            else:
                known = "depends on the data"
            table.add_row(Text(plain(name)), known)
        console.print(table)
    if found.regret is not None:
        print_message(
            console,
            f"A selected key is within {found.regret:,.4g} of the best, at {level} confidence.",
        )
    for note in found.notes:
        print_message(console, plain(note))
    if found.reused:
        print_message(console, "The query has a stored answer, which is free.")
    new = "A new answer, with --fresh," if found.reused else "This query"
    share, epsilon = percent(found.cost.share), f"{found.cost.epsilon:.4g}"
    kinds = ", ".join(found.mechanisms)
    print_message(
        console, f"{new} would cost {share} of the budget (epsilon {epsilon}). Noise: {kinds}."
    )
    if found.left is not None and found.affordable is not None:
        left = percent(found.left.share, down=True)
        queries = "query" if found.affordable == 1 else "queries"
        print_message(
            console, f"About {found.affordable:,} such {queries} left ({left} of the budget left)."
        )


def explain_query(console: Console, query: str, config: Path, want: PriceOptions) -> None:
    """Print what a query would do, one sentence per line; the price options may be omitted."""
    supposed = _default_price(console, want)
    found = _open_here(config).explain(query, **supposed.given())
    for sentence in found.sentences:
        print_message(console, f"- {name_options(plain(sentence))}", hang=2)


def _default_price(console: Console, want: PriceOptions) -> PriceOptions:
    """Return the price options; if none was given, print the default and return it."""
    if want.is_given:
        return want
    print_message(
        console, "Assuming --share 1%. To change this, pass --epsilon, --share, or --error."
    )
    return replace(want, share="1%")


def answer_query(
    query: str,
    config: Path,
    want: PriceOptions,
    options: dict[str, Any],
    *,
    form: str,
    plot: Path | None,
    url: str | None = None,
) -> None:
    """Run a query and write the answer to standard output, and notes to standard error.

    ``options`` are the keyword arguments of the query other than its price.
    """
    if plot is not None:
        _check_plot(plot)
    output, remarks = Console(), Console(stderr=True)
    with _open(config, url) as asked:
        with remarks.status("Running the query"):
            answer = asked.sql(query, **options, **want.given())
        match form:
            case "csv":
                output.file.write(to_csv(answer))
            case "json":
                output.file.write(to_json(answer))
            case _:
                show_figures(output, figures_of(answer))
        if not answer.rows:
            print_message(remarks, NO_GROUP, style="yellow")
        show_paid(remarks, answer, asked.budget)
        warn_without_ledger(remarks, getattr(asked, "ledger", None))
        if plot is not None:
            _write_plot(remarks, plot, figures_of(answer))


def _open(config: Path, url: str | None) -> "AbstractContextManager[Curator | Connection]":
    """Return a context manager that opens the curator of a file, or a connection to a server."""
    return nullcontext(_open_here(config)) if url is None else open_connection(url)


def _open_here(config: Path) -> Curator:
    """Return the curator that a file declares, with a status line while it opens."""
    with Console(stderr=True).status("Opening the declared tables"):
        return Curator.open(config)


def _check_plot(path: Path) -> None:
    """Raise BadArgument for a plot file that cannot be written, before any budget is spent."""
    if path.suffix not in (".svg", ".png"):
        raise BadArgument(f"`--plot` must be a .svg or .png file; got {path.name!r}.")
    check_writable(path)
    if path.suffix == ".png":
        import_converter()


def _write_plot(remarks: Console, path: Path, figures: Figures) -> None:
    noisy = figures.noisy_columns()
    if not noisy:
        print_message(remarks, "The answer has no numeric column to plot.")
        return
    drawn = draw_chart(noisy[0], figures.labels(), figures.column(noisy[0]), paper="white")
    if path.suffix == ".svg":
        path.write_text(drawn, encoding="utf-8")
    else:
        path.write_bytes(import_converter().svg_to_png(drawn, scale=2))
