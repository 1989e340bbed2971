"""Generate code and docs from the registry of statistics: Python methods and a table.

`make generate` runs this script. The methods of `Curator` and `Connection` are checked in, so that
readers, editors, and type checkers see their signatures and docstrings. A test compares the files
with the script's output.
"""

import subprocess
import sys
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

from confide.engines.protocol import Estimator
from confide.exact import Number
from confide.statistics.arguments import ArgumentField, JsonKind, JsonList, JsonNumber
from confide.statistics.registry import BUILT_IN
from confide.statistics.spec import StatisticSpec

ROOT: Final = Path(__file__).parents[1]
METHODS: Final = Path("src/confide/statistics/methods.py")
REMOTE_METHODS: Final = Path("src/confide/client/methods.py")
PAGE: Final = Path("docs/statistics.md")
BEGIN: Final = "<!-- begin: written by `make generate` -->\n"
END: Final = "<!-- end: written by `make generate` -->\n"
WIDTH: Final = 92
"""The line width of method docstrings."""

NAMED_TYPES: Final[dict[Any, str]] = {Estimator: "Estimator", NoneType: "None", Any: "Any"}
NUMBERS: Final = frozenset(get_args(Number))

HEAD: Final = '''"""The statistics as methods of a curator.

Written by `make generate` from `confide.statistics.registry`. Change a spec there, not this file.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Unpack

from confide.declare.budget import CostArgs, show_keywords
from confide.engines.protocol import Estimator
from confide.errors import refusing
from confide.exact import Number
from confide.lazy import lazy_module
from confide.statistics.estimate_methods import EstimateMethods

if TYPE_CHECKING:
{imports}
else:
{lazy}

__all__ = ["StatisticMethods"]


@show_keywords
class StatisticMethods(EstimateMethods):
    """Differentially private statistics, charged once, with intervals that include the noise.

    Their modules, and SciPy, are imported on first use.
    """
'''
REMOTE_HEAD: Final = '''"""The statistics as methods of a connection.

Written by `make generate` from `confide.statistics.registry`. Change a spec there, not this file.
"""

from collections.abc import Sequence
from typing import Unpack

from confide.client.estimates import RemoteEstimate, RemoteEstimateMethods, encode_numbers
from confide.client.http import EstimateArgs
from confide.declare.budget import show_keywords
from confide.exact import Number

__all__ = ["RemoteStatistics"]


@show_keywords
class RemoteStatistics(RemoteEstimateMethods):
    """The statistics of a remote curator, priced by ``epsilon=`` or ``share=``.

    ``confidence=`` is the level of the returned intervals.
    """
'''


def main() -> None:
    """Write all generated files."""
    for path, text in write_files().items():
        (ROOT / path).write_text(text, encoding="utf-8")


def write_files() -> dict[Path, str]:
    """Return the formatted content of each file."""
    page = (ROOT / PAGE).read_text(encoding="utf-8")
    return {
        METHODS: format_source(write_methods(BUILT_IN), METHODS),
        REMOTE_METHODS: format_source(write_remote_methods(BUILT_IN), REMOTE_METHODS),
        PAGE: replace_table(page, write_table(BUILT_IN)),
    }


def format_source(text: str, path: Path) -> str:
    """Return Python source, formatted like `make format`."""
    program = [sys.executable, "-m", "ruff"]
    for command in (["check", "--fix-only", "--quiet", "--select", "F401,I"], ["format"]):
        text = subprocess.run(
            [*program, *command, "--stdin-filename", str(path), "-"],
            input=text,
            capture_output=True,
            text=True,
            check=True,
            cwd=ROOT,
        ).stdout
    return text


def write_methods(specs: Iterable[StatisticSpec[Any]]) -> str:
    """Return the module with a method of `Curator` for each statistic."""
    specs = tuple(specs)
    modules = {module_of(part) for spec in specs for part in (spec.estimate, spec.arguments)}
    results = sorted({result_of(spec) for spec in specs}, key=lambda kind: str(kind.__module__))
    imports = [f"from {name.rpartition('.')[0]} import {last(name)}" for name in sorted(modules)]
    imports += [f"from {kind.__module__} import {kind.__name__}" for kind in results]
    lazy = [f'{last(name)} = lazy_module("{name}")' for name in sorted(modules)]
    head = HEAD.format(imports=indent(imports, 4), lazy=indent(lazy, 4))
    return head + "".join(map(write_method, specs))


def write_method(spec: StatisticSpec[Any]) -> str:
    """Return the source of a method that calls a statistic's estimator."""
    shared = ["fresh: bool = False", "key: str | None = None", "confirm: bool = False"]
    options = [*shared, "**want: Unpack[CostArgs]"]
    listed = signature(spec.fields, options)
    given = [f"{one.name}={one.name}" if one.is_keyword else one.name for one in spec.fields]
    made = f"{last(module_of(spec.arguments))}.{spec.arguments.__name__}({', '.join(given)})"
    called = f"{last(module_of(spec.estimate))}.{spec.estimate.__name__}(context, {made})"
    lines = [
        "",
        "@refusing",
        f'def {spec.name}({listed}) -> "{result_of(spec).__name__}":',
        *docstring(spec.summary, spec.details),
        "    context = self._context(want, fresh=fresh, key=key, confirm=confirm)",
        f"    return {called}",
    ]
    return indent(lines, 4) + "\n"


def write_remote_methods(specs: Iterable[StatisticSpec[Any]]) -> str:
    """Return the module with a method of `Connection` for each statistic."""
    return REMOTE_HEAD + "".join(map(write_remote_method, specs))


def write_remote_method(spec: StatisticSpec[Any]) -> str:
    """Return the source of a method that sends a statistic's arguments."""
    listed = signature(spec.remote_fields, ["**want: Unpack[EstimateArgs]"], is_remote=True)
    sent = ", ".join(f'"{one.name}": {written(one)}' for one in spec.remote_fields)
    lines = [
        "",
        f"def {spec.name}({listed}) -> RemoteEstimate:",
        *docstring(*remote_help(spec)),
        f'    return self._send_estimate("{spec.name}", {{{sent}}}, want)',
    ]
    return indent(lines, 4) + "\n"


def signature(
    fields: Iterable[ArgumentField], options: Iterable[str], *, is_remote: bool = False
) -> str:
    """Return the parameters of a method; options are keyword-only."""
    parts, has_star = ["self"], False
    for field in fields:
        if field.is_keyword and not has_star:
            parts, has_star = [*parts, "*"], True
        kind = "str" if is_remote and field.type == str | Estimator else write_type(field.type)
        default = "" if field.is_required else f" = {field.default!r}"
        parts.append(f"{field.name}: {kind}{default}")
    options = list(options)
    if not has_star and not options[0].startswith("**"):
        parts.append("*")
    return ", ".join([*parts, *options])


def write_type(kind: Any) -> str:
    """Return the source of a type in a signature.

    >>> write_type(int | None), write_type(Number)
    ('int | None', 'Number')
    """
    if kind in NAMED_TYPES:
        return NAMED_TYPES[kind]
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        if set(parts) >= NUMBERS:
            parts = (Number, *(part for part in parts if part not in NUMBERS))
        return " | ".join("Number" if part == Number else write_type(part) for part in parts)
    if origin is not None:
        return f"{origin.__name__}[{', '.join(map(write_type, parts))}]"
    return str(kind.__name__)


def written(field: ArgumentField) -> str:
    """Return the source of the value sent for an argument."""
    is_numeric = any(map(holds_numbers, field.argument.kinds))
    return f"encode_numbers({field.name})" if is_numeric else field.name


def holds_numbers(kind: JsonKind) -> bool:
    """Return whether a JSON type is a number or a list of numbers."""
    return isinstance(kind.item if isinstance(kind, JsonList) else kind, JsonNumber)


def remote_help(spec: StatisticSpec[Any]) -> tuple[str, str]:
    """Return the summary and details of a statistic for remote callers."""
    return (spec.remote_summary, "") if spec.remote_summary else (spec.summary, spec.details)


def docstring(summary: str, details: str) -> Iterator[str]:
    """Yield the lines of a method's docstring."""
    first = f'    """Return {summary}.'
    if not details:
        yield first + '"""'
        return
    yield from (first, "")
    for line in textwrap.wrap(details, WIDTH, break_on_hyphens=False):
        yield f"    {line}"
    yield '    """'


def write_table(specs: Iterable[StatisticSpec[Any]]) -> str:
    """Return the table of all statistics as Markdown."""
    rows = ["| statistic | arguments | returns |", "|---|---|---|"]
    for spec in specs:
        names = ", ".join(named(field) for field in spec.fields if field.name != "table")
        rows.append(f"| `{spec.name}` | {names} | {spec.summary.replace('``', '`')} |")
    return "\n".join(rows) + "\n"


def named(field: ArgumentField) -> str:
    """Return an argument for the table, with its default, and a star if it is local only."""
    text = field.name if field.is_required else f"{field.name}={field.default!r}"
    return f"`{text}`" if field.is_remote else f"`{text}`*"


def replace_table(page: str, table: str) -> str:
    """Return a page with the table between its two markers replaced."""
    before, _, rest = page.partition(BEGIN)
    _, mark, after = rest.partition(END)
    if not mark:
        raise ValueError(f"{PAGE} has lost the marks of its table")
    return f"{before}{BEGIN}\n{table}\n{END}{after}"


def result_of(spec: StatisticSpec[Any]) -> type:
    """Return the class of a statistic's estimates."""
    found: type = get_type_hints(spec.estimate)["return"]
    return found


def module_of(part: Any) -> str:
    """Return the name of the module that defines a function or class."""
    return str(part.__module__)


def last(name: str) -> str:
    """Return the last part of a dotted name."""
    return name.rpartition(".")[2]


def indent(lines: Iterable[str], width: int) -> str:
    """Return lines indented by ``width`` spaces."""
    return textwrap.indent("\n".join(lines), " " * width)


if __name__ == "__main__":
    main()
