"""Write the pages of the docs site to build/pages, from which mkdocs builds build/site.

Pages under docs/ keep their paths. Pages in the root go under about/. The reference comes from
docstrings. Each file of the project that a page links to becomes a page, so that every link works
offline.
"""

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from latex2mathml.converter import convert
from tools.list_messages import write_messages
from tools.write_reference import PACKAGES, ROOT, write_reference

PAGES = ROOT / "build" / "pages"
LINK = re.compile(r"(\]\()(?!https?:|mailto:|#)([^)#\s]+)")
CODE = re.compile(r"(^```.*?^```$|^(?: {4}[^\n]*\n)+|`[^`\n]+`)", re.DOTALL | re.MULTILINE)
TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
NAME = re.compile(r"`(confide(?:\.[a-z_]+)?)\.([A-Z]\w*|[a-z_]+)(\.\w+)?`")
MATH = re.compile(r"(?<![\\$\w])\$(?=\S)([^$]+?)(?<=\S)\$(?!\w)")
LONG = 24  # characters of a formula that may be too wide for a phone
LANGUAGES = {".py": "python", ".toml": "toml", ".sh": "sh", ".yaml": "yaml", ".cff": "yaml"}


def main() -> None:
    """Write every page, with links between pages."""
    shutil.rmtree(PAGES, ignore_errors=True)
    texts = dict(read_documents())
    linked: set[Path] = set()
    for source, text in texts.items():
        written = link_names(text) if source.parent.name == "theory" else text
        write(page_of(source), relink(written, source, linked))
    shutil.copytree(ROOT / "docs" / "pictures", PAGES / "pictures")
    shutil.copytree(ROOT / "docs" / "vendor", PAGES / "vendor")
    shutil.copy(ROOT / "docs" / "site.css", PAGES)
    for source in sorted(linked - texts.keys()):
        if source.exists() and "pictures" not in source.parts:
            write(page_of(source), show_file(source))


def read_documents() -> Iterator[tuple[Path, str]]:
    """Yield each page and its Markdown: the docs of the project, and the reference."""
    places = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "bench" / "README.md"]
    for source in sorted(places):
        yield source, source.read_text(encoding="utf-8")
    for name in PACKAGES:
        yield ROOT / "docs" / "reference" / f"{name}.md", write_reference(name)
    yield ROOT / "docs" / "reference" / "messages.md", write_messages()


def link_names(text: str) -> str:
    """Return a theory page with tests linked to their source, and names to the reference.

    >>> link_names("`tests/loss/test_kinds.py::test_known_values`")
    '[`test_known_values`](../../tests/loss/test_kinds.py)'
    >>> link_names("`confide.loss.PureLoss`")
    '[`confide.loss.PureLoss`](../reference/confide.loss.md#pureloss)'
    """

    def name(found: re.Match[str]) -> str:
        if found[1] not in PACKAGES:
            return found[0]
        anchor = (found[2] + (found[3] or "")).replace(".", "").lower()
        return f"[{found[0]}](../reference/{found[1]}.md#{anchor})"

    return NAME.sub(name, TEST.sub(r"[`\2`](../../\1)", text))


def page_of(source: Path) -> Path:
    """Return the path of a file's page, relative to build/pages.

    >>> str(page_of(ROOT / "LIMITS.md")), str(page_of(ROOT / "docs" / "proofs" / "holdout.md"))
    ('about/limits.md', 'proofs/holdout.md')
    >>> str(page_of(ROOT / "src" / "confide" / "errors.py"))
    'sources/src/confide/errors.py.md'
    """
    place = source.relative_to(ROOT)
    if place.parts[0] == "docs":
        return Path(*place.parts[1:])
    if place.suffix == ".md":
        return Path("about") / "-".join(part.lower() for part in place.parts)
    if source.is_dir():
        return Path("sources") / place / "index.md"
    return Path("sources") / f"{place}.md"


def relink(text: str, source: Path, linked: set[Path]) -> str:
    r"""Return a page with links to other pages, and add their targets to ``linked``.

    >>> relink("    code\n\n[why](LIMITS.md)", ROOT / "README.md", set())
    '    code\n\n[why](limits.md)'
    """

    def replace(found: re.Match[str]) -> str:
        target = Path(os.path.normpath(source.parent / found[2]))
        linked.add(target)
        here = (PAGES / page_of(source)).parent
        return found[1] + os.path.relpath(PAGES / page_of(target), here)

    return "".join(
        piece if place % 2 else write_formulas(LINK.sub(replace, piece))
        for place, piece in enumerate(CODE.split(text))
    )


def write_formulas(text: str) -> str:
    """Return Markdown with formulas as MathML, which browsers render without a script.

    >>> write_formulas("at $x$")
    'at <span><math display="inline"><mrow><mi>x</mi></mrow></math></span>'
    """

    def draw(found: re.Match[str]) -> str:
        drawn = convert(found[1]).replace(' xmlns="http://www.w3.org/1998/Math/MathML"', "")
        kind = ' class="long-formula"' if len(found[1]) > LONG else ""
        return f"<span{kind}>{drawn.replace('*', '&#42;').replace('_', '&#95;')}</span>"

    return MATH.sub(draw, text)


def show_file(source: Path) -> str:
    """Return a page with the text of a file, or with the names in a folder."""
    name = source.relative_to(ROOT)
    if source.is_dir():
        files = sorted(path.name for path in source.iterdir() if path.is_file())
        return f"# {name}\n\n" + "".join(f"- `{file}`\n" for file in files)
    text = source.read_text(encoding="utf-8")
    fence = "`" * 5
    return f"# {name}\n\n{fence}{LANGUAGES.get(source.suffix, 'text')}\n{text}\n{fence}\n"


def write(place: Path, text: str) -> None:
    """Write one page."""
    path = PAGES / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
