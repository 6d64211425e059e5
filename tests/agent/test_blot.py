"""A secret is blotted out in every form in which programs print a value, wherever reads meet."""

from __future__ import annotations

import base64
import html
import json
import re
import shlex
import time
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.agent.blot import Blotter

TEXTS = st.characters(codec="utf-8")
SECRET = 'p@ss "w0rd"\'s\\<&>/é🦙\t%41+=,x'


def _lower(text: str) -> str:
    return re.sub("%..", lambda found: found.group().lower(), text)


def _c(text: str) -> str:
    return "".join(chr(b) if b < 128 and chr(b).isalnum() else f"\\{b:03o}" for b in text.encode())


def _js(text: str) -> str:
    """As Go and browsers do: also what HTML could take for its own."""
    plain = json.dumps(text)
    return re.sub("[<>&']", lambda found: f"\\u{ord(found.group()):04X}", plain).replace("/", "\\/")


PRINTED: dict[str, Callable[[str], str]] = {
    "plain": str,
    "repr": repr,
    "ascii": ascii,
    "bytes": lambda text: repr(text.encode()),
    "json": json.dumps,
    "json-unicode": lambda text: json.dumps(text, ensure_ascii=False),
    "json-in-json": lambda text: json.dumps(json.dumps(text)),
    "repr-of-json": lambda text: repr(json.dumps(text)),
    "javascript": _js,
    "shell": shlex.quote,
    "shell-again": lambda text: shlex.quote(shlex.quote(text)),
    "bash-old": lambda text: "'" + text.replace("'", "'\\''") + "'",
    "bash-q": lambda text: re.sub(r"([^A-Za-z0-9_])", r"\\\1", text),
    "c": _c,
    "url": lambda text: quote(text, safe=""),
    "url-path": quote,
    "url-lower": lambda text: _lower(quote(text, safe="")),
    "url-twice": lambda text: quote(quote(text, safe=""), safe=""),
    "form": quote_plus,
    "html": html.escape,
    "html-numeric": lambda text: "".join(c if c.isalnum() and c.isascii() else f"&#{ord(c)};" for c in text),
    "sql": lambda text: "'" + text.replace("'", "''") + "'",
    "hex": lambda text: text.encode().hex(),
    "HEX": lambda text: text.encode().hex().upper(),
}


@pytest.mark.parametrize("form", PRINTED)
def test_no_form_of_a_secret_is_left(form: str) -> None:
    printed = PRINTED[form](SECRET)
    assert re.fullmatch(r"""key=b?['"\\]*\*\*\*['"\\]*;""", Blotter([SECRET]).blotted(f"key={printed};"))


@settings(max_examples=150, deadline=None)
@given(
    secret=st.text(TEXTS, min_size=4, max_size=40),
    form=st.sampled_from([*PRINTED]),
)
def test_no_form_of_any_secret_is_left(secret: str, form: str) -> None:
    printed = PRINTED[form](secret)
    left = Blotter([secret]).blotted(f"key={printed};")
    assert "***" in left
    # What encloses a value stays; what a quote in it was written with may look like that.
    assert not set(left) - set("key=b;*'\"\\"), left


@pytest.mark.parametrize("shift", range(3))
@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
@settings(max_examples=50, deadline=None)
@given(secret=st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=8, max_size=40))
def test_base64_of_a_text_that_holds_a_secret_tells_nothing_of_it(
    encode: Callable[[bytes], bytes], shift: int, secret: str
) -> None:
    left = Blotter([secret]).blotted(encode(b"u:s"[:shift] + secret.encode() + b" and more").decode())
    assert "***" in left
    inside = base64.b64decode(left.partition("***")[0] + "A" * (-len(left.partition("***")[0]) % 4), b"-_")
    assert len(inside) <= shift + 3


@settings(max_examples=100, deadline=None)
@given(
    secret=st.text(TEXTS, min_size=4, max_size=30),
    form=st.sampled_from([*PRINTED]),
    data=st.data(),
)
def test_what_a_stream_holds_back_is_enough_to_find_a_secret_that_is_split(
    secret: str, form: str, data: st.DataObject
) -> None:
    printed = PRINTED[form](secret)
    text = f"key {printed} end"
    cut = data.draw(st.integers(4, 4 + len(printed)))
    blotter = Blotter([secret])
    first = text[:cut]
    keep = len(first) - blotter.begun(first)
    told = blotter.blotted(first[:keep]) + blotter.blotted(text[keep:])
    assert told == blotter.blotted(text) or not set(told) - set("key end*b'\"\\"), told


def _streamed(blotter: Blotter, text: str, size: int) -> str:
    """What is told of a text that arrives in pieces."""
    told, held = "", ""
    for at in range(0, len(text), size):
        held += text[at : at + size]
        keep = len(held) - blotter.begun(held)
        told, held = told + blotter.blotted(held[:keep]), held[keep:]
    return told + blotter.blotted(held)


SIGNS = ("\"'\nb aaa$&a-$", "'1%%&' '$'1%\\a-&$b\"$", "é éé&-&", "b%a--\n11aé", "'\"\\a$bba%a11\\'\\\\")


@pytest.mark.parametrize("form", PRINTED)
def test_a_secret_of_signs_and_quotes_that_arrives_in_tiny_pieces_is_blotted_out(form: str) -> None:
    for secret in SIGNS:
        text = f"key {PRINTED[form](secret)} end"
        blotter = Blotter([secret])
        for size in (1, 2, 3):
            told = _streamed(blotter, text, size)
            assert told == blotter.blotted(text) or not set(told) - set("key end*b'\"\\"), told


def test_a_long_secret_that_arrives_in_pieces_is_blotted_out_whole() -> None:
    secret = "".join(
        f"{number:x}-" for number in range(10_000, 12_000)
    )  # longer than what a pipe gives at once
    blotter = Blotter([secret])
    assert _streamed(blotter, f"key {secret} end", 4096) == "key *** end"


def test_nothing_is_held_back_of_what_begins_no_secret() -> None:
    assert Blotter(["hf_0123456789abcdef"]).begun("all is well\n") == 0
    assert Blotter(["hf_0123456789abcdef"]).begun("with hf_01") == 5


@pytest.mark.parametrize(
    "text", ["\\" * 60_000, "'" * 60_000, "%25" * 20_000, "&amp;" * 12_000, "p@ss " * 12_000]
)
def test_no_text_takes_long(text: str) -> None:
    blotter = Blotter([SECRET, "'" * 40 + "x", "\\" * 40 + '"', '%25%25"&amp;'])
    begin = time.process_time()
    blotter.blotted(text)
    blotter.begun(text)
    assert time.process_time() - begin < 4


def test_a_key_in_lines_costs_little_where_it_is_not() -> None:
    lines = "\n".join(base64.b64encode(bytes(range(at, at + 48))).decode() for at in range(28))
    key = f"-----BEGIN PRIVATE KEY-----\n{lines}\n-----END PRIVATE KEY-----\n"
    blotter = Blotter([key])
    begin = time.process_time()
    for text in ("-" * 20_000, "- " * 10_000, "all is well: 12 requests\n" * 800, key * 8):
        blotter.blotted(text)
        blotter.begun(text)
    assert time.process_time() - begin < 1.5
    assert blotter.blotted(f"{'-' * 9}{key}") == "-" * 9 + "***"


def test_a_shortened_secret_is_blotted_and_words_are_not() -> None:
    blotter = Blotter(["hf_abcdefghijklmnop", "1234abcd", "abcdefghijkl+mnop"])
    assert blotter.blotted("cut: hf_abcdefghijk… and hf_abcd") == "cut: *** and hf_abcd".replace(
        "*** ", "***… "
    )
    assert blotter.blotted("1234abcdefghijkl+mnop") == "1234***"
