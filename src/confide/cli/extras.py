"""Commands that need more than the core: they say what to install, and never fail halfway."""

from typing import Any

from confide.errors import import_package

__all__ = ["import_extra"]


def import_extra(module: str, extra: str, purpose: str) -> Any:
    """Return a module that needs an extra; without it, say what to type."""
    return import_package(module, f"{purpose} more packages", f'"confide[{extra}]"')
