"""Settings of release records, from the section `[record]` of the declaration file."""

from dataclasses import dataclass, fields

from confide.errors import BadDeclaration

__all__ = ["RecordSettings"]

MAX_LENGTH = 2_000
"""The maximum number of characters of one setting."""


@dataclass(frozen=True, slots=True)
class RecordSettings:
    """The owner's part of a release record; the record omits empty settings.

    ``name`` names the release, ``organization`` publishes it, and ``contact`` answers questions
    about it. ``people`` describes who is in the data, such as "patients of our clinics".
    """

    purpose: str = ""
    contact: str = ""
    name: str = ""
    organization: str = ""
    description: str = ""
    people: str = ""
    region: str = ""
    sector: str = ""
    justification: str = ""
    sources: str = ""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not isinstance(value, str) or len(value) > MAX_LENGTH or "\0" in value:
                raise BadDeclaration(
                    f"`{field.name}` must be a string of at most {MAX_LENGTH:,} characters; got "
                    f"{str(value)[:40]!r}."
                )
