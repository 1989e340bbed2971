"""Late imports of modules that are slow to import or are optional.

Write late imports at the top of a module, where the type checker and the layer checks find them::

    if TYPE_CHECKING:
        from scipy import special
    else:
        special = lazy_module("scipy.special")

A package that exports names from such modules ends with ``__getattr__ = import_late(...)``.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

from confide.errors import MissingPackage

__all__ = ["import_late", "lazy_module", "require_extra", "require_package"]


class _LazyModule(ModuleType):
    """A stand-in for a module that is imported when one of its attributes is read."""

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self.__name__), name)


def lazy_module(name: str) -> Any:
    """Return a module that is imported when one of its attributes is first used.

    >>> lazy_module("string").digits
    '0123456789'
    """
    return _LazyModule(name)


def import_late(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a ``__getattr__`` for ``package`` that imports some of its exports on first use.

    ``homes`` maps each of these names to its module.

    >>> import_late("package", {"digits": "string"})("digits")
    '0123456789'
    """

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(homes[name]), name)

    return find


def require_package(module: str, need: str, install: str, *, instead: str = "") -> Any:
    """Import and return a module from an optional package.

    ``need`` is the first sentence of the error message, without its period. ``install`` is the
    argument for pip, and ``instead`` an alternative to it.

    Raises:
        MissingPackage: the package or one of its dependencies is not installed; the message
            includes the command that installs it.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError:
        alternative = f", or {instead}" if instead else ""
        raise MissingPackage(f"{need}. Run `pip install {install}`{alternative}.") from None


def require_extra(module: str, extra: str, purpose: str) -> Any:
    """Import and return a module that needs an extra of confide, as `require_package` does."""
    return require_package(module, f"{purpose} more packages", f'"confide[{extra}]"')
