"""The commands about a reusable holdout: how many rows it needs, and an experiment with it."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress

from confide.errors import BadDeclaration

__all__ = ["app"]

app = typer.Typer(
    help="A holdout set that can be asked again and again: plan one, or see it at work.",
    no_args_is_help=True,
)

Tau = Annotated[str | None, typer.Option(help="How near answers must be to the population.")]
Beta = Annotated[str, typer.Option(help="How probable it may be that any answer is farther off.")]
Queries = Annotated[int | None, typer.Option(help="How many queries may be asked.")]
Overfits = Annotated[int | None, typer.Option(help="How many guesses may turn out wrong.")]
Rows = Annotated[int | None, typer.Option("--n", help="How many rows the holdout has.")]
Epsilon = Annotated[str | None, typer.Option(help="The session shall also be epsilon-DP.")]


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
    """Show what a session needs by every known bound; leave out what is sought."""
    from confide.cli.screen import say
    from confide.holdout import plan as make_plan

    found = make_plan(tau=tau, beta=beta, queries=queries, overfits=overfits, n=n, epsilon=epsilon)
    written = str(found)
    claims = max(line.find("claim [source]") for line in written.splitlines())
    say(Console(), written, hang=max(claims, 0))


@app.command()
def experiment(
    *,
    out: Annotated[Path, typer.Option(help="A .png, .svg or .html file.")] = Path("holdout.png"),
    rows: Annotated[int, typer.Option("--n", help="Rows of each set.")] = 10_000,
    features: Annotated[int, typer.Option(help="Features to choose from.")] = 10_000,
    runs: Annotated[int, typer.Option(help="How often each variant is run.")] = 50,
) -> None:
    """Choose features with a holdout asked many times, as published, and draw what happens."""
    from confide.cli.screen import say
    from confide.cli.session import check_writable
    from confide.examples.holdout_experiment import METHODS, run_experiment, save_result
    from confide.release.display import import_converter

    if out.suffix.lower() not in (".png", ".svg", ".html"):
        raise BadDeclaration(f"--out must be a .png, .svg or .html file, got {out.name!r}")
    check_writable(out)
    import_converter()
    console = Console()
    with Progress(console=console) as bar:
        task = bar.add_task("experiment", total=2 * runs)
        result = run_experiment(rows, features, runs, tick=lambda: bar.advance(task))
    save_result(result, out)
    last = max(k for k in result.curves[0].picks)
    for method in METHODS:
        curve = result.curve(method, has_signal=False)
        say(
            console,
            f"{method}, no signal, {last} features: "
            f"holdout says {curve.holdout[:, -1].mean():.3f}, "
            f"fresh rows {curve.fresh[:, -1].mean():.3f}",
        )
    say(console, f"figures in {out}")
