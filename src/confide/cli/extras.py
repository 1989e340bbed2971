"""Commands that need more than the core: they say what to install, and never fail halfway."""

from importlib import import_module
from typing import Any

from confide.errors import BadDeclaration

__all__ = ["import_extra"]


def import_extra(module: str, extra: str, purpose: str) -> Any:
    """Return a module that needs an extra; without it, say what to type."""
    try:
        return import_module(module)
    except ModuleNotFoundError:
        raise BadDeclaration(
            f'{purpose} more packages; install them with pip install "confide[{extra}]"'
        ) from None
