"""The `confide record` command."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from confide.cli.output import percent, print_message
from confide.curator import open_declared_ledger
from confide.declare import Declaration, read_toml
from confide.errors import BadDeclaration
from confide.intake.notice import write_notice
from confide.intake.record import check_export, make_record, read_record
from confide.intake.signing import SigningKey, create_key, read_key
from confide.ledger import read_export
from confide.ledger.database import read_address

__all__ = [
    "check_record",
    "create_draft_key",
    "create_record_key",
    "record_key_path",
    "write_page",
    "write_record",
]

DRAFT_KEY: Final = "ledger.key"
"""The key of the ledger that `confide init` names, `ledger.db`."""


def record_key_path(ledger: str | None, config: Path) -> Path:
    """Return the path of the signing key: next to the ledger's file, or else to the declaration."""
    url = None if ledger is None else read_address(ledger)
    if url is None or url.get_backend_name() != "sqlite":
        return config.with_suffix(".key")
    return Path(str(url.database)).with_suffix(".key")


def create_record_key(console: Console, config: Path) -> None:
    """Create the signing key of a declaration that has none, and print its public part."""
    key = create_key(record_key_path(read_toml(config).ledger, config))
    print_message(console, f"{key.path} signs your release records. Keep it secret.")
    _print_public(console, key.public)


def create_draft_key(console: Console, config: Path) -> None:
    """Create the signing key next to the ledger that a draft names, unless there is one."""
    path = config.parent / DRAFT_KEY
    if not path.exists():
        create_key(path)
        print_message(console, f"Wrote {path}, which signs release records. Keep it secret.")


def write_record(console: Console, config: Path, path: Path, given: dict[str, str]) -> None:
    """Write the signed release record to a new file."""
    document = _make_document(config, given)
    _write_new(path, f"{json.dumps(document, indent=2)}\n")
    spent = document["ledger"]["spent"]
    print_message(
        console,
        f"Wrote {path} for a registry of deployments. So far, "
        f"{_count(document['ledger']['charges'], 'release')} spent epsilon {spent['epsilon']:.4g}. "
        "To let others check it, publish an export of the ledger too: "
        "`confide ledger --export FILE`.",
    )
    _print_public(console, document["signature"]["public_key"])


def write_page(console: Console, config: Path, path: Path, given: dict[str, str]) -> None:
    """Write a page for the people in the data to a new .md or .html file."""
    _write_new(path, write_notice(_make_document(config, given), path.name))
    print_message(
        console, f"Wrote {path} for the people in the data. Read it before you publish it."
    )


def check_record(console: Console, path: Path, export: Path | None) -> None:
    """Check a record's signature and, given an export of its ledger, each fact that it states."""
    document, public = read_record(_read(path))
    print_message(console, "The signature is valid.")
    _print_public(console, public)
    if export is None:
        print_message(
            console,
            "The totals were not checked. Pass --ledger with an export of the ledger to recompute "
            "them.",
            style="yellow",
        )
        return
    facts = check_export(document, read_export(_read(export).splitlines()))
    state = facts.state
    delta = f", delta {float(state.delta):g}" if state.delta else ""
    print_message(
        console,
        f"The export confirms the record: {_count(len(facts.charges), 'charge')} spent "
        f"{percent(state.spent.fraction)} of the budget, which is epsilon "
        f"{state.epsilon_spent:.4g}{delta}.",
    )


def _make_document(config: Path, given: dict[str, str]) -> dict[str, Any]:
    declaration = read_toml(config)
    if declaration.ledger is None:
        raise BadDeclaration(
            "A release record needs a ledger that lasts. Add [ledger] with "
            'url = "sqlite:///ledger.db" to the declaration.'
        )
    key, ledger = _find_key(declaration, config), open_declared_ledger(declaration)
    settings = replace(declaration.record, **given)
    export = read_export(ledger.export())
    return make_record(declaration, export, settings, key, datetime.now(UTC).date())


def _find_key(declaration: Declaration, config: Path) -> SigningKey:
    return read_key(record_key_path(declaration.ledger, config))


def _print_public(console: Console, public: str) -> None:
    print_message(
        console, f"Public key (compare it with the one that the owner published): {public}"
    )


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise BadDeclaration(f"{path} cannot be read ({reason}). Choose another file.") from error


def _write_new(path: Path, content: str) -> None:
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(content)
    except FileExistsError:
        raise BadDeclaration(f"{path} already exists. Choose another file name.") from None
    except OSError as error:
        raise BadDeclaration(
            f"{path} cannot be written ({error.strerror}). Choose another file name."
        ) from error
