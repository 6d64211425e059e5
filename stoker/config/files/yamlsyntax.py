"""What is wrong with a text that is no YAML, in a user's words instead of the parser's."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import yaml

from stoker.errors import Problem


@dataclass(frozen=True)
class _Words:
    """One message.

    Args:
        what: What is wrong.
        hint: What was expected.
        at_begin: The place is where the enclosing construct begins, not where the parser gave up.
    """

    what: str
    hint: str = ""
    at_begin: bool = False


_JARGON = {
    "'<block end>'": "the end of the block",
    "'<stream end>'": "the end of the file",
    "'<scalar>'": "a text",
    "'<block mapping start>'": "a new key",
    "'<block sequence start>'": "a new list",
    "'<document start>'": "the start of a document",
    "'\\x00'": "the end of the file",
}
_UNQUOTED_TEMPLATE = re.compile(r"(^|[:\-,\[])\s*\{\{")


def explain(text: str, shown: str, error: yaml.YAMLError) -> Problem:
    """One problem for a syntax error.

    Args:
        text: The whole text.
        shown: What the text is called in messages.
        error: What a PyYAML parser raised. libyaml words and places its errors less exactly than the pure
            Python parser, so that the latter is asked again.
    """
    try:
        for _ in yaml.parse(text, Loader=yaml.SafeLoader):
            pass
    except yaml.YAMLError as better:
        error = better
    except (ValueError, OverflowError):  # it takes "\U00200000" for a character; libyaml has told what it is
        pass
    if isinstance(error, yaml.reader.ReaderError):
        return _unprintable(text, shown, error)
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        return _marked(text.splitlines(), shown, error)
    return Problem(shown, 0, "is not valid YAML")


def _unprintable(text: str, shown: str, error: yaml.reader.ReaderError) -> Problem:
    before = text[: error.position]
    column = len(before) - (before.rfind("\n") + 1) + 1
    what = f"the character U+{ord(text[error.position]):04X} may not stand in YAML"
    return Problem(shown, before.count("\n") + 1, what, "write it as an escape in double quotes", column)


def _marked(lines: Sequence[str], shown: str, error: yaml.MarkedYAMLError) -> Problem:
    mark, begin = error.problem_mark, error.context_mark
    if mark is None:
        return Problem(shown, 0, "is not valid YAML")
    source = lines[mark.line] if mark.line < len(lines) else ""
    words = _in_words(error.problem or "", error.context or "", source, mark.column)
    if begin is not None and "flow" in (error.context or ""):
        kind = "list in brackets" if "sequence" in (error.context or "") else "mapping in braces"
        words = replace(words, hint=f"the {kind} begins on line {begin.line + 1}")
    if _UNQUOTED_TEMPLATE.search(source):
        words = replace(words, hint='quote a value that begins with a template: "{{ … }}"')
    place = begin if words.at_begin and begin is not None else mark
    return Problem(shown, place.line + 1, words.what, words.hint, place.column + 1)


def _in_words(said: str, context: str, source: str, column: int) -> _Words:
    """The message for what PyYAML said about ``source`` at ``column`` (0-based)."""
    if "'\\t'" in said:
        return _Words("a tab stands where YAML wants spaces", "indent with spaces")
    if "cannot start any token" in said:
        return _Words(f"a value cannot begin with {source[column : column + 1]}", "quote it")
    if "mapping values are not allowed" in said and ":" in source[:column]:
        return _Words("a second ': ' on one line", "quote a value that contains ': '")
    if "mapping values are not allowed" in said:
        return _Words(
            "this key cannot stand below the line before",
            "a missing ':' there, or too deep an indentation here",
        )
    if "could not find expected ':'" in said:
        return _Words("a key without ':'", "write KEY: VALUE, with a space after the colon", at_begin=True)
    if "end of stream" in said and "quoted" in context:
        return _Words("a quote that is never closed", at_begin=True)
    if "unknown escape character" in said:
        return _Words(f"\\{source[column : column + 1]} is no escape in double quotes", "use single quotes")
    if "found undefined tag handle" in said:
        return _Words("what begins with ! is a tag, and this one is not known", "quote it if a text is meant")
    if "expected <block end>" in said:
        return _misplaced(said, source, column)
    for jargon, plain in _JARGON.items():
        said = said.replace(jargon, plain)
    return _Words(f"the YAML cannot be read here: {said}")


def _misplaced(said: str, source: str, column: int) -> _Words:
    if source[:column].rstrip().endswith(('"', "'", "}", "]")):
        return _Words("text after the end of the value", "put the whole value in quotes")
    if "found '-'" in said:
        return _Words("a list item where a key is expected", "indent the list below its key")
    return _Words("the indentation does not fit the lines above", "keys of one mapping begin in one column")
