"""The bundled health survey: 8,366 people, one row each."""

from importlib.resources import files
from pathlib import Path
from typing import Final

from confide.declare import Bool, Category, Float, Int, Table

__all__ = ["sample_table"]

EDUCATION: Final = (
    "Less than 9th grade",
    "9-11th grade",
    "High school",
    "Some college",
    "College graduate",
)


def sample_table() -> Table:
    """Return the declaration of a health survey of 8,366 people, one row each.

    The bounds are those that a physician would consider possible; none was read from the rows.
    """
    return Table(
        "people",
        Path(str(files("confide.examples") / "nhanes.parquet")),
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
