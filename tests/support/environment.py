"""Environment variables of users, shells, and CI systems that tests must not depend on."""

import re
from collections.abc import MutableMapping
from typing import Final

__all__ = ["clear_environment"]

FOREIGN: Final = re.compile(
    "CONFIDE_(TOKEN|CONFIG|WORKERS|STATEMENT_TIMEOUT)"  # confide's own settings
    "|PG[A-Z]+"  # libpq: another host, port, role, time zone
    "|(ALL|FTP|HTTP|HTTPS|NO)_PROXY"  # HTTP clients, for addresses on this machine too
    "|COLUMNS|LINES|(NO|FORCE|PY)_COLORS?|CLICOLOR(_FORCE)?|COLORTERM|TTY_[A-Z]+|GITHUB_ACTIONS"
    "|PYTHONDONTWRITEBYTECODE"  # or each program that tests start compiles confide again
    "|_?JAVA(_TOOL)?_OPTIONS|(PYSPARK|SPARK|HADOOP|HIVE)_[A-Z_]+",
    re.IGNORECASE,
)


def clear_environment(environment: MutableMapping[str, str]) -> None:
    """Remove the variables that change the behavior of confide or of its dependencies.

    >>> around = {"PATH": "/bin", "PGPORT": "6543", "http_proxy": "http://a", "NO_COLOR": "1"}
    >>> clear_environment(around)
    >>> around
    {'PATH': '/bin'}
    """
    for name in [name for name in environment if FOREIGN.fullmatch(name)]:
        del environment[name]
