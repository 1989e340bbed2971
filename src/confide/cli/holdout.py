"""The `confide holdout` commands: plan a holdout, and run the published experiment."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import Progress

from confide.errors import BadDeclaration
from confide.lazy import lazy_module

if TYPE_CHECKING:
    from confide.cli import context, output
    from confide.examples import holdout_experiment
    from confide.holdout import planning
    from confide.release import display
else:
    context = lazy_module("confide.cli.context")
    output = lazy_module("confide.cli.output")
    holdout_experiment = lazy_module("confide.examples.holdout_experiment")
    planning = lazy_module("confide.holdout.planning")
    display = lazy_module("confide.release.display")

__all__ = ["app"]

app = typer.Typer(
    help="Plan a reusable holdout, or run the published experiment.",
    no_args_is_help=True,
)

Tau = Annotated[
    str | None,
    typer.Option(metavar="NUMBER", help="Maximum error for the population, such as 0.05."),
]
Beta = Annotated[
    str, typer.Option(metavar="NUMBER", help="Probability that any answer has a larger error.")
]
Queries = Annotated[int | None, typer.Option(metavar="NUMBER", help="Maximum number of queries.")]
Overfits = Annotated[
    int | None, typer.Option(metavar="NUMBER", help="Maximum number of wrong guesses.")
]
Rows = Annotated[
    int | None, typer.Option("--n", metavar="NUMBER", help="Number of rows of the holdout.")
]
Epsilon = Annotated[
    str | None,
    typer.Option(metavar="NUMBER", help="Also make the session differentially private."),
]


@app.command()
def plan(
    *,
    tau: Tau = None,
    beta: Beta = "0.05",
    queries: Queries = None,
    overfits: Overfits = None,
    n: Rows = None,
    epsilon: Epsilon = None,
) -> None:
    """Show the requirements of a session by every known bound; omit the value to compute."""
    found = planning.plan(
        tau=tau, beta=beta, queries=queries, overfits=overfits, n=n, epsilon=epsilon
    )
    written = str(found)
    claims = max(line.find("claim [source]") for line in written.splitlines())
    output.print_message(Console(), written, hang=max(claims, 0))


@app.command()
def experiment(
    *,
    out: Annotated[
        Path, typer.Option(metavar="FILE", help="Path of the chart, as .png, .svg, or .html.")
    ] = Path("holdout.png"),
    rows: Annotated[
        int, typer.Option("--n", metavar="NUMBER", help="Number of rows in each set.")
    ] = 10_000,
    features: Annotated[
        int, typer.Option(metavar="NUMBER", help="Number of features to select from.")
    ] = 10_000,
    runs: Annotated[
        int, typer.Option(metavar="NUMBER", help="Number of runs of each variant.")
    ] = 50,
) -> None:
    """Run the published feature-selection experiment, and draw a chart of the results."""
    if out.suffix.lower() not in (".png", ".svg", ".html"):
        raise BadDeclaration(f"`--out` must be a .png, .svg, or .html file; got {out.name!r}.")
    context.check_writable(out)
    display.import_converter()
    console = Console()
    with Progress(console=console) as bar:
        task = bar.add_task("experiment", total=2 * runs)
        result = holdout_experiment.run_experiment(
            rows, features, runs, tick=lambda: bar.advance(task)
        )
    holdout_experiment.save_result(result, out)
    last = max(k for k in result.curves[0].picks)
    for method in holdout_experiment.METHODS:
        curve = result.curve(method, has_signal=False)
        output.print_message(
            console,
            f"{method}, no signal, {last} features: "
            f"holdout accuracy {curve.holdout[:, -1].mean():.3f}, "
            f"accuracy on fresh rows {curve.fresh[:, -1].mean():.3f}",
        )
    output.print_message(console, f"Wrote the chart to {out}.")
