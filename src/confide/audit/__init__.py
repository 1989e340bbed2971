"""Audits: statistical tests that try to disprove privacy claims on neighboring datasets.

`claims` defines claims, `worlds` and the `*_cases` modules create datasets and outputs, `evidence`
tests a claim with outputs, and `report` runs a complete audit, as `confide audit` does.
"""

from confide.audit.claims import Claim, Currency, claim_of
from confide.audit.evidence import (
    CONFIDENCE,
    Case,
    Evidence,
    Finding,
    Verdict,
    convict,
    hockey_stick,
    largest_ratio,
    run_cases,
    weigh,
)
from confide.audit.mechanism_cases import holdout_cases, mechanism_cases
from confide.audit.query_cases import epsilon_for, open_sides, query_cases
from confide.audit.report import (
    FULL,
    QUICK,
    Effort,
    Report,
    audit_declaration,
)
from confide.audit.worlds import PAIRS

__all__ = [
    "CONFIDENCE",
    "FULL",
    "PAIRS",
    "QUICK",
    "Case",
    "Claim",
    "Currency",
    "Effort",
    "Evidence",
    "Finding",
    "Report",
    "Verdict",
    "audit_declaration",
    "claim_of",
    "convict",
    "epsilon_for",
    "hockey_stick",
    "holdout_cases",
    "largest_ratio",
    "mechanism_cases",
    "open_sides",
    "query_cases",
    "run_cases",
    "weigh",
]
