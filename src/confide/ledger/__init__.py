"""The budget and its history: reserve before reading, commit before answering."""

from confide.ledger.memory import MemoryLedger
from confide.ledger.protocol import Entry, Hold, Ledger, Noisy, Question, Receipt

__all__ = ["Entry", "Hold", "Ledger", "MemoryLedger", "Noisy", "Question", "Receipt"]
