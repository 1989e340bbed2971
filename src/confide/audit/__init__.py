"""Attempts to prove claims wrong: outputs on neighbours, weighed against what was claimed."""

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
from confide.audit.report import (
    FULL,
    QUICK,
    Effort,
    Report,
    audit_declaration,
)

__all__ = [
    "CONFIDENCE",
    "FULL",
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
    "hockey_stick",
    "holdout_cases",
    "largest_ratio",
    "mechanism_cases",
    "run_cases",
    "weigh",
]
