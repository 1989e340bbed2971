"""What is put on trial, and what came of it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from confide.audit.claims import Claim
from confide.audit.evidence import CONFIDENCE, Draw, Evidence, weigh

__all__ = ["Case", "Finding", "Verdict", "run_cases", "sample_case"]


class Verdict(StrEnum):
    """What came of a case."""

    ACQUITTED = "not disproved"
    CONVICTED = "disproved"
    ALIKE = "alike on both sides"


@dataclass(frozen=True, slots=True)
class Finding:
    """What was on trial, between which neighbours, what was claimed and what was found.

    ``way`` says how outputs were drawn. Without samples, ``note`` says what was compared instead.
    """

    subject: str
    pair: str
    way: str
    verdict: Verdict
    evidence: Evidence | None = None
    note: str = ""

    @property
    def samples(self) -> int:
        """How many outputs of each side were drawn."""
        return 0 if self.evidence is None else 2 * self.evidence.trials


@dataclass(frozen=True, slots=True)
class Case:
    """Something that can be tried: ``run`` is told how often it may accuse a true claim."""

    subject: str
    pair: str
    run: Callable[[float], Finding]


def sample_case(
    subject: str, pair: str, way: str, *, claim: Claim, draw: Draw, samples: int
) -> Case:
    """Return the case that weighs so many samples of each side against a claim."""

    def run(false_alarms: float) -> Finding:
        left, right = draw(samples)
        evidence = weigh(left, right, claim, false_alarms=false_alarms)
        verdict = Verdict.CONVICTED if evidence.is_disproof else Verdict.ACQUITTED
        return Finding(subject, pair, way, verdict, evidence)

    return Case(subject, pair, run)


def run_cases(
    cases: Sequence[Case],
    *,
    confidence: float = CONFIDENCE,
    advance: Callable[[Case], None] = lambda _: None,
) -> list[Finding]:
    """Return what came of each case; all true claims are acquitted with this confidence.

    Claim:   if every claim is true, the chance that any is convicted is at most 1 - confidence.
    Why:     each case has an equal part of it, whatever the cases have in common.
    Checked: tests/audit/test_evidence.py.
    """
    findings = []
    for case in cases:
        advance(case)
        findings.append(case.run((1 - confidence) / len(cases)))
    return findings
