"""Packages export exactly the names that they list."""

from types import ModuleType

from support.tree import modules


def unlisted(package: ModuleType) -> set[str]:
    """Return the public names that a package binds but does not list, or the reverse."""
    bound = {
        name
        for name, value in vars(package).items()
        if not name.startswith("_") and not isinstance(value, ModuleType)
    }
    bound -= {
        "TYPE_CHECKING",
        "Any",
        "Final",
        "import_late",
        "import_module",
    }  # the machinery of lazy imports
    bound |= set(getattr(package, "_HOMES", ()))  # names that are imported when first used
    listed = {name for name in getattr(package, "__all__", ()) if not name.startswith("_")}
    listed -= {name for name in listed if isinstance(getattr(package, name), ModuleType)}
    return listed ^ bound


def test_a_package_lists_exactly_what_it_offers() -> None:
    """`__all__` of a package and the public names bound in it are the same set."""
    packages = [module for module in modules() if hasattr(module, "__path__")]

    assert packages
    assert {} == {one.__name__: names for one in packages if (names := unlisted(one))}


def test_every_listed_name_exists_once() -> None:
    """`__all__` names nothing that is missing, and nothing twice."""
    for module in modules():
        listed = list(getattr(module, "__all__", []))

        assert [] == [name for name in listed if not hasattr(module, name)], module.__name__
        assert len(set(listed)) == len(listed), module.__name__
