"""The sample that the demo asks about, as an owner would declare it, and what it asks."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from confide.declare import Bool, Category, Float, Int, Table

__all__ = ["QUESTIONS", "Asked", "sample_table"]

EDUCATION: Final = (
    "Less than 9th grade",
    "9-11th grade",
    "High school",
    "Some college",
    "College graduate",
)


def sample_table() -> Table:
    """Return the declaration of 8,366 people of a health survey, one row each.

    The bounds are what a physician would call possible; none was read from the rows.
    """
    return Table(
        "people",
        Path(str(files("confide.cli") / "samples" / "nhanes.parquet")),
        unit="person",
        unique=True,
        columns={
            "sex": Category(["Female", "Male"]),
            "age": Int(0, 80),
            "education": Category(EDUCATION),
            "health": Category(["Excellent", "Very good", "Good", "Fair", "Poor"]),
            "insured": Bool(),
            "ever_smoked": Bool(),
            "diabetes": Category(["No", "Borderline", "Yes"]),
            "sleep_hours": Float(0, 16, step=0.5),
            "weight_kg": Float(0, 250),
            "height_cm": Float(50, 220),
            "systolic": Int(60, 240),
            "cholesterol": Int(50, 450),
        },
    )


@dataclass(frozen=True, slots=True)
class Asked:
    """One question of the demo: what for, its text, what it may cost or how near it must be."""

    title: str
    sql: str
    want: Mapping[str, Any]
    remark: str = ""


QUESTIONS: Final = (
    Asked(
        "How many are 65 or older?",
        "SELECT COUNT(*) AS people FROM people WHERE age >= 65",
        {"epsilon": 0.05},
        "One person more or less changes a count by 1, so little noise hides anybody.",
    ),
    Asked(
        "Does blood pressure rise with age?",
        "SELECT CASE WHEN age < 20 THEN 'below 20' WHEN age < 40 THEN '20 to 39'\n"
        "            WHEN age < 60 THEN '40 to 59' ELSE '60 and above' END AS years,\n"
        "       AVG(systolic) AS systolic\n"
        "FROM people GROUP BY years",
        {"epsilon": 0.2},
        "Groups do not overlap, so four of them cost no more than one.",
    ),
    Asked(
        "Who has smoked, by education?",
        "SELECT education, COUNT(*) FILTER (WHERE ever_smoked) / COUNT(ever_smoked) AS smoked\n"
        "FROM people GROUP BY education ORDER BY smoked DESC",
        {"epsilon": 0.3},
        "A ratio of two statistics: both are paid for once, the division is free.",
    ),
    Asked(
        "How do people judge their health, and how long do they sleep?",
        "SELECT health, COUNT(*) AS people, AVG(sleep_hours) AS hours\nFROM people GROUP BY health",
        {"epsilon": 0.3},
        "Few people say 'Poor': their interval is wider, and says so.",
    ),
    Asked(
        "Are people with diabetes heavier for their height?",
        "SELECT diabetes,\n"
        "       AVG(LEAST(weight_kg / (height_cm / 100 * (height_cm / 100)), 60)) AS bmi\n"
        "FROM people WHERE age >= 20 GROUP BY diabetes",
        {"epsilon": 0.3},
        "LEAST keeps one extreme value from setting the scale of the noise.",
    ),
    Asked(
        "How many hours do they all sleep in a working night?",
        "SELECT SUM(sleep_hours) AS hours FROM people",
        {"epsilon": 0.05},
    ),
    Asked(
        "How many have no health insurance, give or take 40?",
        "SELECT COUNT(*) AS people FROM people WHERE NOT insured",
        {"error": 40},
        "Accuracy first: confide finds the least cost at which the error is small enough.",
    ),
    Asked(
        "What do adults weigh, in the middle?",
        "SELECT sex, MEDIAN(weight_kg) AS middle FROM people WHERE age >= 20 GROUP BY sex",
        {"epsilon": 0.3},
        "A quantile is a choice among values by their rank, so extreme bounds hardly cost it.",
    ),
    Asked(
        "How spread out is cholesterol?",
        "SELECT sex, AVG(cholesterol) AS mean, STDDEV(cholesterol) AS deviation\n"
        "FROM people GROUP BY sex",
        {"epsilon": 0.2},
    ),
    Asked(
        "Which schooling and health go together most often?",
        "SELECT education, health FROM people\n"
        "GROUP BY education, health ORDER BY COUNT(*) DESC LIMIT 3",
        {"epsilon": 0.1},
        "The 3 largest of 25 groups, without their counts: three choices cost the same among 25 "
        "groups as among 2,500.",
    ),
    Asked(
        "What does the heaviest person weigh?",
        "SELECT MAX(weight_kg) FROM people",
        {"epsilon": 0.1},
        "A maximum is one person's value, so it is refused; a refusal costs nothing.",
    ),
    Asked(
        "How many are 65 or older, asked again in other words?",
        "select count(*) as people\nfrom people\nwhere (age) >= 65",
        {"epsilon": 0.05},
        "The same question gets the same answer, free: asking often does not wear the noise away.",
    ),
    Asked(
        "Everything about everybody, please?",
        "SELECT age, sex, AVG(weight_kg) AS weight FROM people GROUP BY age, sex",
        {"epsilon": 2.0},
        "More than is left of the budget is refused before a row is read.",
    ),
)
