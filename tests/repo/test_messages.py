"""Every error message says what is allowed, or what to do instead.

A message names what is allowed, or its complaint is followed by what to do. So does a fault that an
owner or a caller can fix; those in INSIDE are internal errors, which they cannot fix.
"""

import re

import pytest
from tools.list_messages import Message, error_kinds, list_messages

from confide.errors import BadDeclaration, ConfideError, Fault, Refusal
from support.tree import modules

INSIDE = {"loss.enclosure", "plan.selection", "holdout.thresholdout", "server.agents"}
HELPS = re.compile(
    r"; |:\n|: (?!\{)|\. [A-Z`]|\b(?:must|needs?|needed|only|takes?|such as|one of|at most|at least"
    r"|write|send|1 to|go from|cannot be|can be|saved as|is (?:of|for|one|joined)"
    r"|are (?:allowed|cast|INNER|joined|made|written))\b"
    r"|\{(?:advice|example|hint|restore|suggestion)\}"
)
HOLES = re.compile(r"\{[^}]*\}")


def named(message: Message) -> str:
    return f"{message.module.removeprefix('confide.')}:{message.line}"


def kinds(*families: type[ConfideError]) -> set[str]:
    """Return the names of all errors of these families."""
    modules()
    return {
        name
        for name, kind in error_kinds().items()
        if issubclass(kind, families) and kind.__module__.startswith("confide.")
    }


@pytest.fixture(scope="module")
def messages() -> list[Message]:
    """Return the messages that owners and analysts can get."""
    found = list_messages(kinds(BadDeclaration, Refusal))
    return [message for message in found if not message.is_passed_on]


def test_the_messages_are_found(messages: list[Message]) -> None:
    """The tests below cover hundreds of messages, of every error for an owner or an analyst."""
    assert len(messages) > 350
    assert {"BadDeclaration", "UnsupportedQuery", "BudgetExceeded", "UnknownName"} <= {
        message.error for message in messages
    }


def test_a_message_names_what_is_allowed_or_what_to_do(messages: list[Message]) -> None:
    """Each message has a word that allows something, or continues after its complaint."""
    assert {} == {named(one): one.text for one in messages if not HELPS.search(one.text)}


def test_a_fault_names_what_to_do() -> None:
    """Each fault that a user can meet is followed by what to do."""
    found = [
        message
        for message in list_messages(kinds(Fault) - kinds(BadDeclaration, Refusal))
        if not message.is_passed_on
        and message.error != "AnsweredAlready"  # caught where it is raised
        and message.module.removeprefix("confide.") not in INSIDE
    ]

    assert len(found) > 30
    assert [] == [f"{named(one)} {one.text}" for one in found if not HELPS.search(one.text)]


PYTHON = re.compile(r"\b(?:NoneType|ValueError|TypeError|kwargs|str\b|dict\b|tuple)")
EMPTY_WORDS = re.compile(r"\b(?:please|sorry|oops|invalid|illegal)\b", re.IGNORECASE)


def is_plain(text: str) -> bool:
    """Return whether a message is not empty, does not shout, and names no Python type."""
    words = HOLES.sub("x", text).strip()
    is_sentence = bool(words) and not words.endswith("!")
    return is_sentence and not PYTHON.search(words) and not EMPTY_WORDS.search(words)


def test_a_message_is_plain(messages: list[Message]) -> None:
    """A message is not empty, does not shout, and names no Python type."""
    assert {} == {named(one): one.text for one in messages if not is_plain(one.text)}
    assert not any(is_plain(text) for text in ("", "no!", "please retry", "got NoneType"))


SENTENCE = re.compile(r"(?:[A-Z]|[^\w\s]|confide ).*\.", re.DOTALL)


def is_sentence(text: str) -> bool:
    """Return whether a message starts with a capital letter or code, and ends with a period."""
    return SENTENCE.fullmatch(HOLES.sub("`x.", text).strip()) is not None


def test_a_message_is_a_sentence() -> None:
    """Each message, also that of a fault, is a sentence, before an excerpt if there is one."""
    found = [message for message in list_messages(kinds(ConfideError)) if not message.is_passed_on]

    assert len(found) > 400
    assert {} == {named(one): one.text for one in found if not is_sentence(one.text)}
    assert not any(map(is_sentence, ("no period", "No period", "lower case.", "{name}: gone")))


def test_an_unhelpful_message_is_detected() -> None:
    """The rules above reject a message that only complains."""
    for text in ("that did not work", "bad value", "the answer is no"):
        assert not HELPS.search(text)


RULE = re.compile(r"\b(?:must|cannot be)\b")
GIVEN = re.compile(r"\bgot\b|\bas in\b|\blike\b|this one is|: \{")


def test_a_rule_alone_shows_what_was_given(messages: list[Message]) -> None:
    """A message whose only help is a rule also shows the received value."""
    bare = [
        f"{named(one)} {one.text}"
        for one in messages
        if not HELPS.search(RULE.sub("", one.text)) and not GIVEN.search(one.text)
    ]

    assert [] == bare


def test_the_list_contains_no_code() -> None:
    """In the list of messages, a placeholder is one or two words, without calls or dots."""
    listed = list_messages(set(error_kinds()))
    holes = {
        hole
        for one in listed
        if not one.is_passed_on
        for hole in re.findall(r"\{[^}]*\}", one.text)
    }
    code = {hole for hole in holes if not re.fullmatch(r"\{[a-z0-9 ]+\}", hole)}

    assert {'{"A": 12}'} >= code  # an example, as typed
    assert [] == [one.text for one in listed if "<" in one.text[1:] and "()" in one.text]
