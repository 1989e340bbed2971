"""Limits, the parser, one SELECT; no argument is left unread.

The parser recurses and accepts far more than confide answers. So length and nesting are bounded
before it runs, and every node's arguments are accounted for after: what is not read is refused.
"""

import logging
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from sqlglot import Token, TokenType, exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import ParseError, SqlglotError

from confide.errors import UnknownName, UnsupportedQuery

__all__ = ["Statement", "parse_statement", "underline"]

WIDTH: Final = 70


def underline(text: str, start: int, end: int) -> str:
    r"""Return the line of ``text`` that holds ``start`` with carets below [start, end).

    A piece that runs over several lines is underlined to the end of its first; a long line is
    cut around the piece.

    >>> print(underline("SELECT *\nFROM visits", 7, 8))
    line 1: SELECT *
                   ^
    """
    start = max(0, min(start, len(text) - 1))
    first = text.rfind("\n", 0, start) + 1
    last = text.find("\n", start)
    line = text[first:] if last < 0 else text[first:last]
    begin = start - first
    length = max(1, min(end - start, len(line) - begin))
    cut = max(0, begin - WIDTH // 4) if len(line) > WIDTH else 0
    shown = "".join(char if char.isprintable() else " " for char in line[cut : cut + WIDTH])
    length = max(1, min(length, len(shown) - (begin - cut)))
    label = f"line {text.count(chr(10), 0, start) + 1}: "
    return f"{label}{shown}\n{' ' * (len(label) + begin - cut)}{'^' * length}"


T = TokenType
READING: Final[ContextVar[bool]] = ContextVar("reading", default=False)
UNREADABLE: Final = "this is not SQL that confide can read"
SHAPE: Final = "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward, with names of yours"
LONGEST: Final = 20_000
DEEPEST: Final = 20
LEVELS: Final = 60
MOST_JOINS: Final = 16
LONGEST_NAME: Final = 100
CALLED: Final = re.compile(r"\w+\s*\(\s*\Z")
STARTS: Final = frozenset({T.SELECT, T.WITH, T.FROM})
PREFIXES: Final = frozenset(
    {T.NOT, T.DASH, T.PLUS, T.TILDE, T.INTERVAL, T.DISTINCT, T.ALL, T.ANY, T.SOME, T.EXISTS}
)
OPERANDS: Final = frozenset(
    {T.VAR, T.IDENTIFIER, T.NUMBER, T.STRING, T.NULL, T.TRUE, T.FALSE, T.STAR, T.COMMA}
)
LISTS: Final = (
    "lists and names in brackets are not answered; write one value at a time, such as "
    "QUANTILE_CONT(x, 0.1), QUANTILE_CONT(x, 0.9), and a name as it is or in double quotes"
)
FOREIGN: Final = {
    T.L_BRACKET: LISTS,
    T.L_BRACE: "structures are not answered; select each value by itself, with a name behind AS",
    T.PARAMETER: "parameters are not answered; write the value itself",
    T.PLACEHOLDER: "parameters are not answered; write the value itself",
    T.COLON: "parameters and slices are not answered; write the value itself",
    T.SEMICOLON: "one SELECT is answered at a time; ask the others by themselves",
    T.OVER: "window functions are not answered; group instead",
    T.QUALIFY: "window functions and QUALIFY are not answered; filter groups with HAVING",
    T.ARROW: "lambda functions and JSON are not answered",
}
TYPED: Final = {
    **dict.fromkeys(
        "\u201c\u201d\u2018\u2019\u00b4", "texts take straight quotes, as in ward = 'A'"
    ),
    "`": 'names stand as they are, or in double quotes, as in "my ward"',
    "\u2265": "write >=",
    "\u2264": "write <=",
    "\u2260": "write <>",
    **dict.fromkeys("\u2013\u2014\u2212", "write - for minus"),
    "\u00d7": "write *",
    "\u00f7": "write /",
}
"""Signs that keyboards and word processors make, and what to write instead."""
LISTING: Final = "curator.names, GET /v1/tables and the page list what can be asked about"
INSTEAD: Final = {
    **dict.fromkeys(("SHOW", "DESCRIBE", "PRAGMA", "SUMMARIZE"), LISTING),
    "EXPLAIN": "leave EXPLAIN out, and ask by curator.explain(...) or confide preview",
}
MISSPELT: Final = {
    re.compile(r"\A\s*SELECT\s+TOP\s+\Z", re.I): "write LIMIT behind ORDER BY instead of TOP",
    re.compile(r"\A(?!.*\bFROM\b).*\bFORM\s+\Z", re.I | re.S): "write FROM",
}
"""What stands before the place where the parser stops, and what to write instead."""
# The parser itself may stumble over text that nobody foresaw; these are the ways.
STUMBLES: Final = (
    SqlglotError,
    RecursionError,
    AttributeError,
    LookupError,
    TypeError,
    ValueError,
    AssertionError,
)


@dataclass(frozen=True, slots=True)
class Statement:
    """The analyst's text, and the SELECT that it is."""

    text: str
    root: exp.Select
    tokens: tuple[Token, ...]

    @contextmanager
    def placing(self, node: exp.Expr) -> Iterator[None]:
        """Show refusals that know no place yet at ``node``."""
        try:
            yield
        except (UnsupportedQuery, UnknownName) as refusal:
            if refusal.excerpt:
                raise
            excerpt = underline(self.text, *self._span(node))
            raise type(refusal)(refusal.message, excerpt=excerpt) from None

    def refuse(self, node: exp.Expr, message: str, *words: str) -> UnsupportedQuery:
        """Return a refusal that underlines the first of ``words`` in the text, else the node."""
        for token in self.tokens:
            if token.text.upper() in words:
                return UnsupportedQuery(
                    message, excerpt=underline(self.text, token.start, token.end + 1)
                )
        return UnsupportedQuery(message, excerpt=underline(self.text, *self._span(node)))

    def expect(self, node: exp.Expr, *known: str) -> None:
        """Refuse a node that carries any argument besides ``known``.

        Privacy: an argument that nobody reads (a window, a sample, a hint) would change the
        question without a trace in the tree.
        """
        for name, value in node.args.items():
            if value and name not in known:
                advice = CLAUSES.get(name, "this is not answered; leave it out")
                inner = value[0] if isinstance(value, list) else value
                at = inner if isinstance(inner, exp.Expr) else node
                word = inner if isinstance(inner, str) else advice.split(" ", 1)[0]
                raise self.refuse(at, advice, word.upper())

    def _span(self, node: exp.Expr) -> tuple[int, int]:
        """Return where a node stands in the text, or the nearest one around it that knows."""
        at: exp.Expr | None = node
        while at is not None:
            places = [part.meta for part in at.walk() if "start" in part.meta]
            if places:
                start = min(int(place["start"]) for place in places)
                end = max(int(place["end"]) for place in places) + 1
                # From the beginning of a long text the search would take the square of its length.
                before = max(0, start - LONGEST_NAME)
                is_named = not isinstance(at, exp.Func) or "start" in at.meta
                if not is_named and (name := CALLED.search(self.text, before, start)):
                    start = name.start()
                return start, self._close(start, end)
            if (word := self._find_word(at)) is not None:
                return word
            at = at.parent
        return 0, len(self.text)

    def _find_word(self, node: exp.Expr) -> tuple[int, int] | None:
        """Return where a function without arguments stands, such as CURRENT_DATE."""
        names = node.sql_names() if isinstance(node, exp.Func) else []
        found = (token for token in self.tokens if token.text.upper() in names)
        return next(((token.start, token.end + 1) for token in found), None)

    def _close(self, start: int, end: int) -> int:
        """Take in the parentheses that were opened between ``start`` and ``end``."""
        pending = self.text.count("(", start, end) - self.text.count(")", start, end)
        while pending > 0:
            rest = self.text[end:].lstrip()
            if not rest.startswith(")"):
                break
            end, pending = len(self.text) - len(rest) + 1, pending - 1
        return end


# Arguments that nobody reads, with what to say; the first word is looked for in the text.
CLAUSES: Final = {
    "qualify": "QUALIFY is not answered; filter groups with HAVING",
    "windows": "WINDOW functions are not answered; group instead",
    "offset": "OFFSET is not answered; use LIMIT alone",
    "into": "INTO writes, and confide only answers",
    "laterals": "LATERAL subqueries are not answered",
    "pivots": "PIVOT is not answered; group instead",
    "sample": "TABLESAMPLE is not answered; confide reads all rows",
    "recursive": "RECURSIVE subqueries are not answered",
    "locks": "FOR locks nothing here; leave it out",
    "db": "names stand alone: no schema or database goes before a table",
    "catalog": "names stand alone: no schema or database goes before a table",
    "all": "ALL is not answered in GROUP BY; list the keys",
    "hint": "hints are not answered; leave them out",
    "joins": "JOIN inside parentheses is not answered; write the joins one after the other",
    "query": "a subquery as a value is not answered; list the values or join a table",
    "with_fill": "FILL is not answered",
    "columns": "column names after a table's alias are not answered; rename inside",
    "with_": "WITH belongs at the beginning of the question",
    "on": "ON is not answered after DISTINCT; group instead",
    "having": "HAVING is not answered in a subquery; write WHERE around it",
    "order": "ORDER BY is not answered in a subquery; leave it out",
    "limit": "LIMIT is not answered in a subquery; leave it out",
    "distinct": "DISTINCT is not answered in a subquery; group by the unit",
    "method": "ASOF, POSITIONAL and NATURAL joins are not answered; write JOIN table ON x = y",
    "nulls_first": "NULLS FIRST is not answered; NULL always comes last",
}


def parse_statement(text: str) -> Statement:
    """Return the one SELECT that a text is, or refuse it; no limit depends on anything else."""
    if not isinstance(text, str) or not text.strip():
        raise UnsupportedQuery("a question is a text: SELECT COUNT(*) FROM table")
    if len(text) > LONGEST:
        raise UnsupportedQuery(
            f"a question has at most {LONGEST:,} characters, this one has {len(text):,}; "
            "ask in parts"
        )
    if any(0xD800 <= ord(char) < 0xE000 for char in text):
        raise UnsupportedQuery("the text holds halves of characters; write it as UTF-8")
    tokens = _check_tokens(text, _tokenize(text))
    root = _parse(text, tokens)
    _check_depth(text, root)
    return Statement(text, root, tuple(tokens))


def _tokenize(text: str) -> list[Token]:
    try:
        return list(DuckDB().tokenize(text))
    except STUMBLES:
        raise UnsupportedQuery(
            "the text ends inside a quoted name, a text or a comment; close it"
        ) from None


def _check_tokens(text: str, tokens: list[Token]) -> list[Token]:
    """Return the tokens of one statement whose nesting the parser can bear."""
    while tokens and tokens[-1].token_type is T.SEMICOLON:
        tokens.pop()
    if not tokens:
        raise UnsupportedQuery("a question is a text: SELECT COUNT(*) FROM table")
    if tokens[0].token_type not in STARTS:
        said = INSTEAD.get(tokens[0].text.upper(), f"write {SHAPE}")
        raise _refuse_token(text, tokens[0], f"a question is one SELECT statement; {said}")
    for token in tokens:
        if any(comment.startswith("+") for comment in token.comments):
            raise _refuse_token(text, token, "hints are not answered; leave the comment out")
        if token.token_type in FOREIGN:
            raise _refuse_token(text, token, FOREIGN[token.token_type])
    _check_signs(text, tokens)
    _check_nesting(text, tokens)
    _check_commas(text, tokens)
    if sum(token.token_type is T.JOIN for token in tokens) > MOST_JOINS:
        raise UnsupportedQuery(f"at most {MOST_JOINS} joins are answered")
    return tokens


def _check_signs(text: str, tokens: Sequence[Token]) -> None:
    """Refuse signs that are not SQL, but for names that say so by what stands before them."""
    for before, token in pairwise(tokens):
        is_name = before.token_type in (T.DOT, T.ALIAS)
        sign = token.text[:1] if token.token_type in (T.VAR, T.UNKNOWN) else ""
        if sign in TYPED and not is_name:
            raise _refuse_token(text, token, f"{sign} is not SQL; {TYPED[sign]}")


def _check_nesting(text: str, tokens: Sequence[Token]) -> None:
    """Refuse deep nesting: brackets, CASE, and operators that wait for their operand."""
    opened: list[TokenType] = []
    for token in tokens:
        kind = token.token_type
        if kind in PREFIXES or kind in (T.L_PAREN, T.CASE):
            opened.append(kind)
        elif kind in OPERANDS:
            _drop_prefixes(opened)
        elif kind in (T.R_PAREN, T.END):
            _drop_prefixes(opened)
            if opened:
                opened.pop()
            _drop_prefixes(opened)
        if len(opened) > DEEPEST:
            raise _refuse_token(
                text, token, f"this is nested more than {DEEPEST} deep; write it flatter"
            )
    parentheses = [token.token_type for token in tokens]
    if parentheses.count(T.L_PAREN) != parentheses.count(T.R_PAREN):
        raise UnsupportedQuery(
            "as many parentheses must close as open; add the one that is missing"
        )


def _check_commas(text: str, tokens: Sequence[Token]) -> None:
    """Refuse commas with nothing beside them, which the parser would pass over."""
    for left, right in pairwise(tokens):
        lonely = left.token_type in (T.L_PAREN, T.SELECT, T.COMMA) and right.token_type is T.COMMA
        if lonely or (left.token_type is T.COMMA and right.token_type is T.R_PAREN):
            raise _refuse_token(text, right, "something is missing beside this comma")


def _drop_prefixes(opened: list[TokenType]) -> None:
    while opened and opened[-1] in PREFIXES:
        opened.pop()


def _refuse_token(text: str, token: Token, message: str) -> UnsupportedQuery:
    return UnsupportedQuery(message, excerpt=underline(text, token.start, token.end + 1))


def _stay_silent(_record: logging.LogRecord) -> bool:
    return not READING.get()


# The parser's own warnings quote the text; while we read, the refusal says all there is to say.
logging.getLogger("sqlglot").addFilter(_stay_silent)


def _parse(text: str, tokens: list[Token]) -> exp.Select:
    silence = READING.set(True)
    try:
        found = DuckDB().parser().parse(tokens, text)
    except ParseError as error:
        raise _place_error(text, error) from None
    except STUMBLES:
        raise UnsupportedQuery(f"{UNREADABLE}; write {SHAPE}") from None
    finally:
        READING.reset(silence)
    root = found[0] if len(found) == 1 else None
    if isinstance(root, exp.SetOperation):
        raise UnsupportedQuery(
            "UNION, INTERSECT and EXCEPT are not answered; ask each SELECT by itself"
        )
    if type(root) is not exp.Select:
        raise UnsupportedQuery(
            f"a question is one SELECT statement, without parentheses around it; write {SHAPE}"
        )
    return root


def _place_error(text: str, error: ParseError) -> UnsupportedQuery:
    first = error.errors[0] if error.errors else {}
    line, column = int(first.get("line") or 1), int(first.get("col") or 1)
    word = str(first.get("highlight") or "")
    start = sum(len(row) + 1 for row in text.split("\n")[: line - 1]) + column - len(word)
    reason = str(first.get("description") or "it cannot be parsed").rstrip(".")
    if "<class" in reason:  # the parser names its own classes, which mean nothing to others
        return _place_gap(text, start, start + len(word))
    if "Unexpected token" in reason:
        reason = "it does not go on like this"
    said = (advice for wrong, advice in MISSPELT.items() if wrong.search(text[:start]))
    return UnsupportedQuery(
        f"{UNREADABLE}: {reason}; {next(said, f'write {SHAPE}')}",
        excerpt=underline(text, start, start + len(word)),
    )


def _place_gap(text: str, start: int, end: int) -> UnsupportedQuery:
    """Return the refusal of a text in which something is missing before ``start``."""
    called = CALLED.search(text, max(0, start - LONGEST_NAME), start)
    if called is None:
        said = f"{UNREADABLE}: something is missing here; write {SHAPE}"
        return UnsupportedQuery(said, excerpt=underline(text, start, end))
    name = called[0].rstrip("( \t\n")
    said = f"{name} needs something in its parentheses, such as a column: write {name}(x)"
    return UnsupportedQuery(said, excerpt=underline(text, called.start(), end))


def _check_depth(text: str, root: exp.Expr) -> None:
    """Refuse long chains such as 1 + 1 + ...; those of AND and OR count as one level."""
    waiting: list[tuple[exp.Expr, int]] = [(root, 1)]
    while waiting:
        node, level = waiting.pop()
        if level > LEVELS:
            raise UnsupportedQuery(
                f"an expression has more than {LEVELS} levels; write it flatter",
                excerpt=underline(text, 0, len(text)),
            )
        for child in node.iter_expressions():
            same = type(child) is type(node) and isinstance(node, exp.Connector)
            waiting.append((child, level if same else level + 1))
