"""What a package offers is what it lists."""

from types import ModuleType

import pytest

from support.tree import modules

PACKAGES = [module for module in modules() if hasattr(module, "__path__")]


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_a_package_lists_exactly_what_it_offers(package: ModuleType) -> None:
    """`__all__` of a package and the public names bound in it are the same set."""
    bound = {
        name
        for name, value in vars(package).items()
        if not name.startswith("_") and not isinstance(value, ModuleType)
    }
    bound -= {"TYPE_CHECKING", "Any", "Final", "import_module"}  # how a package looks names up
    bound |= set(getattr(package, "_HOMES", ()))  # names that are imported when first used
    listed = {name for name in package.__all__ if not name.startswith("_")}
    listed -= {name for name in listed if isinstance(getattr(package, name), ModuleType)}

    assert listed == bound


@pytest.mark.parametrize("module", modules(), ids=lambda module: module.__name__)
def test_every_listed_name_exists_once(module: ModuleType) -> None:
    """`__all__` names nothing that is missing, and nothing twice."""
    listed = list(getattr(module, "__all__", []))

    assert [] == [name for name in listed if not hasattr(module, name)]
    assert len(set(listed)) == len(listed)
