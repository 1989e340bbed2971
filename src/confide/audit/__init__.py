"""Attempts to prove claims wrong: outputs on neighbours, weighed against what was claimed."""

from confide.audit.bounds import hockey_stick, largest_ratio
from confide.audit.cases import Case, Finding, Verdict, run_cases
from confide.audit.claims import Claim, Currency, claim_of
from confide.audit.evidence import CONFIDENCE, Evidence, convict, weigh
from confide.audit.holdouts import holdout_cases
from confide.audit.mechanisms import mechanism_cases
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
