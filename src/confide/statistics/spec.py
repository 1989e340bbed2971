"""`StatisticSpec`: the single definition of a statistic for Python, HTTP, agents, and audits."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from confide.declare import Table
from confide.errors import BadDeclaration
from confide.statistics.arguments import ArgumentField, argument_fields
from confide.statistics.estimate import EstimateContext, EstimateResult

__all__ = ["RESERVED", "StatisticSpec"]

A = TypeVar("A")
RESERVED: Final = frozenset(
    {"statistic", "epsilon", "share", "error", "confidence", "fresh", "key", "confirm", "context"}
)
"""Argument names that statistics cannot use, because every call has them."""


@dataclass(frozen=True, slots=True)
class StatisticSpec(Generic[A]):
    """A statistic: its arguments, its estimator, and its documentation.

    ``name`` is the name of its Python method, and its name in HTTP and MCP requests. ``arguments``
    is a frozen dataclass whose first field is ``table``. ``estimate`` plans or refuses from the
    declaration alone, and charges through `charge_and_release`. ``summary`` completes a sentence
    that begins with "Return", on one line without a period; ``details`` adds sentences. For remote
    callers, a nonempty ``remote_summary`` replaces both. ``audit`` returns arguments with which an
    audit can test the statistic on a table, or None; ``trial`` describes that test in the report.
    """

    name: str
    arguments: type[A]
    estimate: Callable[[EstimateContext, A], EstimateResult]
    summary: str
    audit: Callable[[Table], A | None]
    trial: str
    details: str = ""
    remote_summary: str = ""

    def __post_init__(self) -> None:
        names = [field.name for field in self.fields]
        if not self.name.isidentifier() or names[:1] != ["table"] or RESERVED & set(names):
            raise ValueError(
                f"The name of statistic {self.name!r} must be an identifier, and its arguments "
                f"must begin with `table` and not include any of {', '.join(sorted(RESERVED))}."
            )

    @property
    def fields(self) -> tuple[ArgumentField, ...]:
        """The arguments, in order."""
        return argument_fields(self.arguments)

    @property
    def remote_fields(self) -> tuple[ArgumentField, ...]:
        """The arguments that servers and agents accept."""
        return tuple(field for field in self.fields if field.is_remote)

    def read(self, given: Mapping[str, Any]) -> A:
        """Return the arguments object for keyword arguments.

        Raises:
            BadDeclaration: an argument is missing or unknown.
        """
        try:
            inspect.signature(self.arguments).bind(**given)
        except TypeError as error:
            listed = ", ".join(field.name for field in self.fields)
            raise BadDeclaration(
                f"Wrong arguments for `{self.name}`: {error}. It takes {listed}."
            ) from None
        return self.arguments(**given)
