"""The refusal that belongs to losses."""

from confide.errors import Refusal

__all__ = ["Unpriceable"]


class Unpriceable(Refusal):
    """No accountant here can bound this loss; nothing was read or spent."""

    code = "unpriceable"
