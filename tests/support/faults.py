"""Messages of faults that several tests expect."""

from typing import Final

ENGINE_FAULT: Final = (
    "The engine failed; the owner's log has the reason. If you retry with the same key, you will "
    "not be charged twice."
)
