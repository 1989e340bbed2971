"""The one way to import late: what takes long to import, or is no part of the core.

At the top of a module, where both the type checker and the checks of layers read it::

    if TYPE_CHECKING:
        from scipy import special
    else:
        special = lazy_module("scipy.special")
"""

from importlib import import_module
from types import ModuleType
from typing import Any

from confide.errors import MissingPackage

__all__ = ["lazy_module", "require_extra", "require_package"]


class _LazyModule(ModuleType):
    """Stands for a module until something of it is used."""

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self.__name__), name)


def lazy_module(name: str) -> Any:
    """Return a module that is imported when something of it is first used.

    >>> lazy_module("string").digits
    '0123456789'
    """
    return _LazyModule(name)


def require_package(module: str, need: str, install: str) -> Any:
    """Return a module that the core does without; where it is missing, say what to type.

    Raises:
        MissingPackage: it, or something that it needs, is not installed.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError:
        raise MissingPackage(f"{need}; type pip install {install}") from None


def require_extra(module: str, extra: str, purpose: str) -> Any:
    """Return a module that needs an extra; without it, say what to type."""
    return require_package(module, f"{purpose} more packages", f'"confide[{extra}]"')
