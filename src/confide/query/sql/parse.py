"""Limits on SQL text, the call to the parser, and errors that underline the text.

The parser (SQLGlot) is recursive and accepts far more than confide supports. So length and nesting
are limited before it runs. Its nodes have named arguments. The modules that convert a node first
pass it to `Statement.expect`, which refuses arguments that they would not read.
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

EXCERPT_WIDTH: Final = 70


def underline(text: str, start: int, end: int) -> str:
    r"""Return the line of ``text`` that contains ``start``, with carets below a span.

    The span consists of the positions from ``start`` to just before ``end``. If the span has
    several lines, only its first line is underlined. A long line is truncated around the span.

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
    cut = max(0, begin - EXCERPT_WIDTH // 4) if len(line) > EXCERPT_WIDTH else 0
    shown = "".join(char if char.isprintable() else " " for char in line[cut : cut + EXCERPT_WIDTH])
    length = max(1, min(length, len(shown) - (begin - cut)))
    label = f"line {text.count(chr(10), 0, start) + 1}: "
    return f"{label}{shown}\n{' ' * (len(label) + begin - cut)}{'^' * length}"


T = TokenType
PARSING: Final[ContextVar[bool]] = ContextVar("reading", default=False)
SYNTAX_ERROR: Final = "The SQL cannot be parsed"
EXAMPLE: Final = (
    "Write a query such as `SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward`, with your names."
)
MAX_SQL_LENGTH: Final = 20_000
MAX_NESTING: Final = 20
MAX_EXPRESSION_DEPTH: Final = 60
MAX_JOINS: Final = 16
MAX_NAME_LENGTH: Final = 100
CALL_START: Final = re.compile(r"\w+\s*\(\s*\Z")
"""The name and opening parenthesis of a function call, at the end of a string."""
FIRST_TOKENS: Final = frozenset({T.SELECT, T.WITH, T.FROM})
PREFIX_TOKENS: Final = frozenset(
    {T.NOT, T.DASH, T.PLUS, T.TILDE, T.INTERVAL, T.DISTINCT, T.ALL, T.ANY, T.SOME, T.EXISTS}
)
OPERAND_TOKENS: Final = frozenset(
    {T.VAR, T.IDENTIFIER, T.NUMBER, T.STRING, T.NULL, T.TRUE, T.FALSE, T.STAR, T.COMMA}
)
LIST_ADVICE: Final = (
    "Lists and names in brackets are not supported. Write values one by one, such as "
    "`QUANTILE_CONT(x, 0.1), QUANTILE_CONT(x, 0.9)`. Write names without quotes or in double "
    "quotes."
)
UNSUPPORTED_TOKENS: Final = {
    T.L_BRACKET: LIST_ADVICE,
    T.L_BRACE: "Structures are not supported. Select each value as a column of its own.",
    T.PARAMETER: "Parameters are not supported. Write the value itself.",
    T.PLACEHOLDER: "Parameters are not supported. Write the value itself.",
    T.COLON: "Parameters and slices are not supported. Write the value itself.",
    T.SEMICOLON: "Only one statement is supported at a time. Run the others separately.",
    T.OVER: "Window functions are not supported. Use GROUP BY instead.",
    T.QUALIFY: "Window functions and QUALIFY are not supported. Filter groups with HAVING.",
    T.ARROW: "Lambda functions and JSON are not supported.",
}
TYPOGRAPHIC: Final = {
    **dict.fromkeys(
        "\u201c\u201d\u2018\u2019\u00b4", "Put strings in straight quotes, such as `ward = 'A'`."
    ),
    "`": 'Write names without quotes, or in double quotes, such as "my ward".',
    "\u2265": "Write >=.",
    "\u2264": "Write <=.",
    "\u2260": "Write <>.",
    **dict.fromkeys("\u2013\u2014\u2212", "Write - for minus."),
    "\u00d7": "Write *.",
    "\u00f7": "Write /.",
}
"""Typographic characters from keyboards and word processors, and what to write instead."""
TABLES_ADVICE: Final = "`curator.names`, `GET /v1/tables`, and the web UI list the tables."
COMMAND_ADVICE: Final = {
    **dict.fromkeys(("SHOW", "DESCRIBE", "PRAGMA", "SUMMARIZE"), TABLES_ADVICE),
    "EXPLAIN": "Remove EXPLAIN, and use `curator.explain(...)` or `confide preview`.",
}
TYPO_ADVICE: Final = {
    re.compile(r"\A\s*SELECT\s+TOP\s+\Z", re.I): "Write LIMIT after ORDER BY instead of TOP.",
    re.compile(r"\A(?!.*\bFROM\b).*\bFORM\s+\Z", re.I | re.S): "Write FROM.",
}
"""Patterns of the text before the position of a parse error, and what to write instead."""
# Every kind of exception that the parser may raise on unexpected input.
PARSER_EXCEPTIONS: Final = (
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
    """A SQL query: its text, the parsed SELECT (``root``), and its tokens."""

    text: str
    root: exp.Select
    tokens: tuple[Token, ...]

    @contextmanager
    def locating(self, node: exp.Expr) -> Iterator[None]:
        """Add an excerpt that underlines ``node`` to errors in the block that do not have one."""
        try:
            yield
        except (UnsupportedQuery, UnknownName) as refusal:
            if refusal.excerpt:
                raise
            excerpt = underline(self.text, *self._span(node))
            raise type(refusal)(refusal.message, excerpt=excerpt) from None

    def refuse(self, node: exp.Expr, message: str, *words: str) -> UnsupportedQuery:
        """Return an error that underlines the first token among ``words``, or else the node."""
        for token in self.tokens:
            if token.text.upper() in words:
                return UnsupportedQuery(
                    message, excerpt=underline(self.text, token.start, token.end + 1)
                )
        return UnsupportedQuery(message, excerpt=underline(self.text, *self._span(node)))

    def expect(self, node: exp.Expr, *known: str) -> None:
        """Raise UnsupportedQuery if a node has an argument other than ``known``.

        Privacy: an argument that no code reads (a window, a sample, a hint) would change the query
        without leaving a trace in the tree.
        """
        for name, value in node.args.items():
            if value and name not in known:
                advice = CLAUSE_ADVICE.get(name, "This is not supported. Remove it.")
                first = value[0] if isinstance(value, list) else value
                underlined = first if isinstance(first, exp.Expr) else node
                word = first if isinstance(first, str) else advice.split(" ", 1)[0]
                raise self.refuse(underlined, advice, word.upper())

    def _span(self, node: exp.Expr) -> tuple[int, int]:
        """Return the span of a node in the text, or of its nearest ancestor with a known span."""
        at: exp.Expr | None = node
        while at is not None:
            spans = [part.meta for part in at.walk() if "start" in part.meta]
            if spans:
                start = min(int(span["start"]) for span in spans)
                end = max(int(span["end"]) for span in spans) + 1
                # Limit the search: starting at 0, it would be quadratic in the length of the text.
                before = max(0, start - MAX_NAME_LENGTH)
                is_named = not isinstance(at, exp.Func) or "start" in at.meta
                if not is_named and (name := CALL_START.search(self.text, before, start)):
                    start = name.start()
                return start, self._include_closing(start, end)
            if (word := self._find_word(at)) is not None:
                return word
            at = at.parent
        return 0, len(self.text)

    def _find_word(self, node: exp.Expr) -> tuple[int, int] | None:
        """Return the span of the first token that names a function node, such as CURRENT_DATE."""
        names = node.sql_names() if isinstance(node, exp.Func) else []
        found = (token for token in self.tokens if token.text.upper() in names)
        return next(((token.start, token.end + 1) for token in found), None)

    def _include_closing(self, start: int, end: int) -> int:
        """Return ``end`` extended over the parentheses that close those opened in the span."""
        pending = self.text.count("(", start, end) - self.text.count(")", start, end)
        while pending > 0:
            rest = self.text[end:].lstrip()
            if not rest.startswith(")"):
                break
            end, pending = len(self.text) - len(rest) + 1, pending - 1
        return end


# Advice for unsupported arguments of nodes. If the first word of the advice is in the query, it is
# underlined there.
CLAUSE_ADVICE: Final = {
    "qualify": "QUALIFY is not supported. Filter groups with HAVING.",
    "windows": "WINDOW functions are not supported. Use GROUP BY instead.",
    "offset": "OFFSET is not supported. Use LIMIT alone.",
    "into": "INTO is not supported, because confide only reads. Remove it.",
    "laterals": "LATERAL subqueries are not supported.",
    "pivots": "PIVOT is not supported. Use GROUP BY instead.",
    "sample": "TABLESAMPLE is not supported. Remove it; all rows are read.",
    "recursive": "RECURSIVE subqueries are not supported.",
    "locks": "FOR is not supported, because nothing is locked. Remove it.",
    "db": "Schemas and databases are not supported. Write the name of the table alone.",
    "catalog": "Schemas and databases are not supported. Write the name of the table alone.",
    "all": "ALL is not supported in GROUP BY. List the keys.",
    "hint": "Hints are not supported. Remove them.",
    "joins": "JOIN inside parentheses is not supported. Write the joins one after the other.",
    "query": "Subqueries as values are not supported. List the values, or join a table.",
    "with_fill": "FILL is not supported.",
    "columns": "Column names after a table's alias are not supported. Rename columns inside.",
    "with_": "WITH must be at the start of the query.",
    "on": "ON is not supported after DISTINCT. Use GROUP BY instead.",
    "having": "HAVING is not supported in a subquery. Use WHERE in the outer query.",
    "order": "ORDER BY is not supported in a subquery. Remove it.",
    "limit": "LIMIT is not supported in a subquery. Remove it.",
    "distinct": "DISTINCT is not supported in a subquery. Group by the unit.",
    "method": "ASOF, POSITIONAL, and NATURAL joins are not supported. Write `JOIN table ON x = y`.",
    "nulls_first": "NULLS FIRST is not supported. NULL always comes last.",
}


def parse_statement(text: str) -> Statement:
    """Return the parsed SELECT of a query, or raise UnsupportedQuery."""
    if not isinstance(text, str) or not text.strip():
        raise UnsupportedQuery("A query must be a string, such as `SELECT COUNT(*) FROM table`.")
    if len(text) > MAX_SQL_LENGTH:
        raise UnsupportedQuery(
            f"A query can have at most {MAX_SQL_LENGTH:,} characters, but this one has "
            f"{len(text):,}. Split the query."
        )
    if any(0xD800 <= ord(char) < 0xE000 for char in text):
        raise UnsupportedQuery("The query contains an unpaired surrogate. Write it in UTF-8.")
    tokens = _check_tokens(text, _tokenize(text))
    root = _parse(text, tokens)
    _check_depth(text, root)
    return Statement(text, root, tuple(tokens))


def _tokenize(text: str) -> list[Token]:
    try:
        return list(DuckDB().tokenize(text))
    except PARSER_EXCEPTIONS:
        raise UnsupportedQuery(
            "The query ends inside a quoted name, a string, or a comment. Close it."
        ) from None


def _check_tokens(text: str, tokens: list[Token]) -> list[Token]:
    """Return the tokens without final semicolons, or raise UnsupportedQuery.

    They must begin like one SELECT, contain no unsupported tokens, and not be nested deeper than
    the parser can handle.
    """
    while tokens and tokens[-1].token_type is T.SEMICOLON:
        tokens.pop()
    if not tokens:
        raise UnsupportedQuery("A query must be a string, such as `SELECT COUNT(*) FROM table`.")
    if tokens[0].token_type not in FIRST_TOKENS:
        advice = COMMAND_ADVICE.get(tokens[0].text.upper(), EXAMPLE)
        raise _token_error(text, tokens[0], f"A query must be one SELECT statement. {advice}")
    for token in tokens:
        if any(comment.startswith("+") for comment in token.comments):
            raise _token_error(text, token, "Hints are not supported. Remove the comment.")
        if token.token_type in UNSUPPORTED_TOKENS:
            raise _token_error(text, token, UNSUPPORTED_TOKENS[token.token_type])
    _check_signs(text, tokens)
    _check_nesting(text, tokens)
    _check_commas(text, tokens)
    if sum(token.token_type is T.JOIN for token in tokens) > MAX_JOINS:
        raise UnsupportedQuery(f"A query can have at most {MAX_JOINS} joins. Split the query.")
    return tokens


def _check_signs(text: str, tokens: Sequence[Token]) -> None:
    """Raise UnsupportedQuery for typographic characters, unless they belong to a name."""
    for before, token in pairwise(tokens):
        is_name = before.token_type in (T.DOT, T.ALIAS)
        sign = token.text[:1] if token.token_type in (T.VAR, T.UNKNOWN) else ""
        if sign in TYPOGRAPHIC and not is_name:
            raise _token_error(text, token, f"{sign} is not SQL. {TYPOGRAPHIC[sign]}")


def _check_nesting(text: str, tokens: Sequence[Token]) -> None:
    """Raise UnsupportedQuery for deep nesting or for parentheses that do not match.

    Parentheses, CASE, and prefix operators count as levels.
    """
    opened: list[TokenType] = []
    for token in tokens:
        kind = token.token_type
        if kind in PREFIX_TOKENS or kind in (T.L_PAREN, T.CASE):
            opened.append(kind)
        elif kind in OPERAND_TOKENS:
            _drop_prefixes(opened)
        elif kind in (T.R_PAREN, T.END):
            _drop_prefixes(opened)
            if opened:
                opened.pop()
            _drop_prefixes(opened)
        if len(opened) > MAX_NESTING:
            raise _token_error(
                text, token, f"This is nested more than {MAX_NESTING} levels deep. Simplify it."
            )
    parentheses = [token.token_type for token in tokens]
    if parentheses.count(T.L_PAREN) != parentheses.count(T.R_PAREN):
        raise UnsupportedQuery(
            "The parentheses do not match. Add the missing one, or remove the extra one."
        )


def _check_commas(text: str, tokens: Sequence[Token]) -> None:
    """Raise UnsupportedQuery for a comma without a value next to it; the parser would ignore it."""
    for left, right in pairwise(tokens):
        is_empty = left.token_type in (T.L_PAREN, T.SELECT, T.COMMA) and right.token_type is T.COMMA
        if is_empty or (left.token_type is T.COMMA and right.token_type is T.R_PAREN):
            raise _token_error(
                text, right, "A value is missing next to this comma. Add it, or remove the comma."
            )


def _drop_prefixes(opened: list[TokenType]) -> None:
    """Remove the prefix operators at the end of ``opened``, because their operand is complete."""
    while opened and opened[-1] in PREFIX_TOKENS:
        opened.pop()


def _token_error(text: str, token: Token, message: str) -> UnsupportedQuery:
    return UnsupportedQuery(message, excerpt=underline(text, token.start, token.end + 1))


def _allow_log(_record: logging.LogRecord) -> bool:
    return not PARSING.get()


# The parser's warnings quote the query, so they are not logged; the caller gets an error instead.
logging.getLogger("sqlglot").addFilter(_allow_log)


def _parse(text: str, tokens: list[Token]) -> exp.Select:
    token = PARSING.set(True)
    try:
        found = DuckDB().parser().parse(tokens, text)
    except ParseError as error:
        raise _locate_error(text, error) from None
    except PARSER_EXCEPTIONS:
        raise UnsupportedQuery(f"{SYNTAX_ERROR}. {EXAMPLE}") from None
    finally:
        PARSING.reset(token)
    root = found[0] if len(found) == 1 else None
    if isinstance(root, exp.SetOperation):
        raise UnsupportedQuery(
            "UNION, INTERSECT, and EXCEPT are not supported. Run each SELECT separately."
        )
    if type(root) is not exp.Select:
        raise UnsupportedQuery(
            f"A query must be one SELECT statement, without parentheses around it. {EXAMPLE}"
        )
    return root


def _locate_error(text: str, error: ParseError) -> UnsupportedQuery:
    """Return the error for SQL that the parser rejects, with the rejected word underlined."""
    first = error.errors[0] if error.errors else {}
    line, column = int(first.get("line") or 1), int(first.get("col") or 1)
    word = str(first.get("highlight") or "")
    start = sum(len(row) + 1 for row in text.split("\n")[: line - 1]) + column - len(word)
    reason = str(first.get("description") or "it cannot be parsed").rstrip(".")
    if "<class" in reason:  # names of the parser's classes mean nothing to analysts
        return _gap_error(text, start, start + len(word))
    if "Unexpected token" in reason:
        reason = "the query cannot continue like this"
    hints = (hint for typo, hint in TYPO_ADVICE.items() if typo.search(text[:start]))
    return UnsupportedQuery(
        f"{SYNTAX_ERROR}: {reason}. {next(hints, EXAMPLE)}",
        excerpt=underline(text, start, start + len(word)),
    )


def _gap_error(text: str, start: int, end: int) -> UnsupportedQuery:
    """Return the error for a query in which something is missing before ``start``."""
    called = CALL_START.search(text, max(0, start - MAX_NAME_LENGTH), start)
    if called is None:
        message = f"{SYNTAX_ERROR}: something is missing here. {EXAMPLE}"
        return UnsupportedQuery(message, excerpt=underline(text, start, end))
    name = called[0].rstrip("( \t\n")
    message = f"`{name}` needs an argument, such as a column. Write `{name}(x)`."
    return UnsupportedQuery(message, excerpt=underline(text, called.start(), end))


def _check_depth(text: str, root: exp.Expr) -> None:
    """Raise UnsupportedQuery for a tree that is too deep, as a long sum such as 1 + 1 + ... has.

    A chain of AND or of OR counts as one level.
    """
    waiting: list[tuple[exp.Expr, int]] = [(root, 1)]
    while waiting:
        node, level = waiting.pop()
        if level > MAX_EXPRESSION_DEPTH:
            raise UnsupportedQuery(
                f"An expression can have at most {MAX_EXPRESSION_DEPTH} levels. Simplify it.",
                excerpt=underline(text, 0, len(text)),
            )
        for child in node.iter_expressions():
            is_chain = type(child) is type(node) and isinstance(node, exp.Connector)
            waiting.append((child, level if is_chain else level + 1))
