"""Foreign text: control characters are neutralised and secrets are redacted."""

from __future__ import annotations

import base64
import json
import time
import unicodedata
from collections.abc import Callable
from functools import partial
from unittest import mock
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench.model import text as text_module
from workbench.model.text import (
    REDACTED,
    add_secrets,
    compare_with_threshold,
    format_score_change,
    format_threshold,
    is_secret_key,
    mask_data,
    mask_named_secrets,
    mask_secrets,
    may_be_redacted,
    may_hold_secret,
    neutralise,
    one_line,
    redact,
    score_text,
)


@given(st.text())
def test_only_tabs_and_line_feeds_survive_of_control_characters(text: str) -> None:
    safe = neutralise(text)

    assert not [c for c in safe if unicodedata.category(c) in ("Cc", "Cs") and c not in "\t\n"]


def test_escapes_and_bidirectional_marks_are_shown_as_text() -> None:
    assert neutralise("\x1b[31mred\x07 \u202egnp.exe\x9b2J") == "␛[31mred␇ \\u202egnp.exe\\x9b2J"


def test_ordinary_text_stays_unchanged() -> None:
    text = "café 你好 สวัสดี مرحبا 👩 🇩🇪\n\ttabbed [bold]not markup[/bold]"

    assert neutralise(text) == text


@given(st.text(), st.integers(1, 40))
def test_one_line_returns_a_single_line_of_at_most_the_given_width(text: str, width: int) -> None:
    line = one_line(text, width=width)

    assert len(line) <= width
    assert "\n" not in line


@pytest.mark.parametrize(
    "secret",
    [
        "AIza" + "x" * 35,
        "sk-" + "a" * 24,
        "ghp_" + "b" * 36,
        "AKIA" + "A" * 16,
        "-----BEGIN PRIVATE KEY-----\nabc\n-----END PRIVATE KEY-----",
    ],
)
def test_keys_are_recognised_by_their_format(secret: str) -> None:
    assert redact(f"failed with {secret} in it") == "failed with [redacted] in it"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("answered 500: ghp_" + "b" * 20 + "...", "answered 500: [redacted]..."),
        ("it said sk-proj-abc…", "it said [redacted]…"),
        ("token eyJhbGciOi.eyJzdWIi.abc... end", "token [redacted]... end"),
        ("key -----BEGIN RSA PRIVATE KEY-----\nabc\ndef...", "key [redacted]"),
        ("a task-force-report...", "a task-force-report..."),
    ],
)
def test_truncated_keys_are_recognised_by_their_format(text: str, expected: str) -> None:
    assert redact(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("password=hunter22", "password=[redacted]"),
        ('"GOOGLE_API_KEY": "abcdefgh"', '"GOOGLE_API_KEY": "[redacted]"'),
        ("https://host/?api_key=abcdefgh&x=1", "https://host/?api_key=[redacted]&x=1"),
        ("the secret of a good password", "the secret of a good password"),
        ("--api-key=abcdefgh MY_APP_TOKENS=abcdefgh", "--api-key=[redacted] MY_APP_TOKENS=abcdefgh"),
        ("_my-other_api_key: abcdefgh", "_my-other_api_key: [redacted]"),
        ('{"authorization": "Bearer abcdefgh"}', '{"authorization": "Bearer [redacted]"}'),
        ("Authorization: Basic dXNlcjpwYXNz", "Authorization: Basic [redacted]"),
        ("curl -H Bearer abcdefgh12345678", "curl -H Bearer [redacted]"),
        ("password: correcthorse\nuser: a", "password: [redacted]\nuser: a"),
        ("secret: should be looked through", "secret: should be looked through"),
        ("secret: well-known files cannot be looked through", "secret: well-known files cannot be looked through"),
        ("authorization: required of whoever asks", "authorization: required of whoever asks"),
        ("the bearer of these messages", "the bearer of these messages"),
    ],
)
def test_secrets_are_recognised_by_their_name(text: str, expected: str) -> None:
    assert redact(text) == expected


@given(
    st.lists(
        st.sampled_from(
            [
                *("api", "private", "access", "auth", "key", "KEY", "token", "Token", "secret", "ſecret", "password"),
                *("passphrase", "authorization", "bearer ", "Basic ", "_", "-", "=", ": ", "'", "\n", "abcDEF123"),
                *("sk-", "AIza", "ghp_", "xoxb-", "AKIA", "eyJ", ".", "X" * 32, "…", "-----BEGIN PRIVATE KEY-----"),
            ]
        ),
        max_size=8,
    ).map("".join)
)
def test_the_search_for_marks_misses_no_secret(text: str) -> None:
    """The expressions are only tried where one of their marks occurs."""
    with mock.patch.multiple(text_module, _MARKS=(("", ("",)),), _MARKS_OF_NAMES=("",)):
        expected = redact(text)

    assert redact(text) == expected


@pytest.mark.parametrize("part", ["aB3_x9-", "secret:", "secret: ", "bearer ", "password", "eyJ.", "sk-"])
def test_a_long_text_is_redacted_in_linear_time(part: str) -> None:
    """A search that restarts at each part, for example of an encoded picture, would take minutes."""
    text = part * 100_000 + ", and the end"

    assert redact(text).endswith(", and the end")


SECRET = "Zx81-abcdefghijklmnopqrstuvwxyz-012345678"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"it said {SECRET}, twice {SECRET}", "it said [redacted], twice [redacted]"),
        (f"answered 500: {SECRET[:37]}...", "answered 500: [redacted]..."),
        (f"answered 500: {SECRET[:7]}… and more", "answered 500: [redacted]… and more"),
        (f"cut at the end {SECRET[:20]}", "cut at the end [redacted]"),
        (f"{SECRET[20:]} begins a tail", "[redacted] begins a tail"),
        ("Zx81- is no part that counts", "Zx81- is no part that counts"),
        (f"{SECRET[-9:]} is a word", f"{SECRET[-9:]} is a word"),
        (f"first half {SECRET[:30]}\nnext line", "first half [redacted]\nnext line"),
        (f"last half ({SECRET[15:]}) and more", "last half ([redacted]) and more"),
        (f"both {SECRET[:30]} {SECRET[15:]} halves", "both [redacted] [redacted] halves"),
        (f"less than half {SECRET[:18]} is a word", f"less than half {SECRET[:18]} is a word"),
    ],
)
def test_known_secrets_are_redacted_whole_and_truncated(text: str, expected: str) -> None:
    add_secrets([SECRET])

    assert redact(text) == mask_secrets(text) == expected


def test_a_word_that_begins_a_known_secret_is_not_masked() -> None:
    add_secrets(["password-for-tests-1", "20240131-key"])

    for text in ("reset_password", "What is my password", "my password...", "in 20240131"):
        assert mask_secrets(text) == text
    assert mask_secrets("it was password-for...") == "it was [redacted]..."


ENCODED = "q7/Ab+\"c&d\nEf'9 ghijklmnopqrstuvwxyz_0123456é"


@pytest.mark.parametrize(
    "encode",
    [
        str,
        repr,
        quote,
        partial(quote, safe=""),
        quote_plus,
        json.dumps,
        partial(json.dumps, ensure_ascii=False),
        lambda text: base64.b64encode(text.encode()).decode(),
        lambda text: base64.urlsafe_b64encode(text.encode()).decode(),
    ],
)
def test_encoded_secrets_are_masked_whole_and_truncated(encode: Callable[[str], str]) -> None:
    add_secrets([ENCODED])
    whole = encode(ENCODED).strip("='\"")

    for part in (whole, whole[: len(whole) * 2 // 3], whole[len(whole) // 3 :]):
        assert mask_secrets(f"It is <{part}> here") == "It is <[redacted]> here"


@pytest.mark.parametrize("before", ["", "u", "u:", "user:", "Bearer "])
@pytest.mark.parametrize("after", ["", "\n", " and more"])
@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
def test_known_secrets_inside_other_encoded_text_are_masked(
    before: str, after: str, encode: Callable[[bytes], bytes]
) -> None:
    add_secrets([ENCODED])
    whole = encode(f"{before}{ENCODED}{after}".encode()).decode()

    rest = mask_secrets(whole).replace(REDACTED, "")

    assert len(rest) <= (len(before) + len(after)) * 4 / 3 + 8


def test_parts_of_secrets_are_found_in_linear_time() -> None:
    add_secrets(["ö~" * 20 + "Q", "R" + "ö~" * 20])

    start = time.process_time()
    mask_secrets("ö~" * 500_000 + "!")

    assert time.process_time() - start < 5


def test_every_text_in_data_is_masked() -> None:
    add_secrets([SECRET])

    assert mask_data({SECRET: [1, None, {"a": f"x{SECRET}"}]}) == {"[redacted]": [1, None, {"a": "x[redacted]"}]}


def test_a_json_line_that_may_hold_a_secret_is_detected_without_parsing() -> None:
    add_secrets(['"quoted" secret'])

    assert may_hold_secret(json.dumps({"a": 'the "quoted" secret'}).encode())
    assert not may_hold_secret(b'{"a": "nothing"}')


@pytest.mark.parametrize(
    ("name", "is_secret"),
    [
        ("api_key", True),
        ("MY_AUTH_TOKEN", True),
        ("authorization", True),
        ("Proxy-Authorization", True),
        ("clientSecret", True),
        ("dbPassword", True),
        ("DBPassword", True),
        ("refreshToken", True),
        ("id_token", True),
        ("tokens", False),
        ("tokenCount", False),
        ("max_tokens", False),
        ("page_token", False),
        ("secretary", False),
    ],
)
def test_secret_keys_are_recognised_by_their_name(name: str, is_secret: bool) -> None:
    assert is_secret_key(name) is is_secret


def test_a_token_is_a_secret_if_it_is_long() -> None:
    value = {"token": "abcdef0123456789", "cookie": "sid=0123456789", "logprobs": [{"token": " Hello", "bytes": 5}]}

    assert mask_named_secrets(value) == {
        "token": "[redacted]", "cookie": "[redacted]", "logprobs": [{"token": " Hello", "bytes": 5}],
    }  # fmt: skip
    assert may_be_redacted(json.dumps({"token": "abcdef0123456789"}))
    assert not may_be_redacted(json.dumps({"prompt_token_count": 5, "max_tokens": 6, "token_count": 7}))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("use sk_live_4eC39HqLyjWDarjtT1 here", "use [redacted] here"),
        ("github_pat_11ABCDEFG0123456789_abcdef", "[redacted]"),
        ("postgres://ann:hunter2@db.example.org/x", "postgres://ann:[redacted]@db.example.org/x"),
        ("redis://:hunter2@cache:6379", "redis://:[redacted]@cache:6379"),
        ('{"clientSecret": "hunter2"}', '{"clientSecret": "[redacted]"}'),
        ("refresh_token=abcdef123", "refresh_token=[redacted]"),
        ("see http://example.org:8080/@ann and mail ann@x.org", None),
        ("https://example.org/a:b@c", None),
        ("the next token: continue with it", None),
        ("token_count: 1234567", None),
        ("isSecretary: nobodyhere", None),
    ],
)
def test_keys_and_passwords_of_other_services(text: str, expected: str | None) -> None:
    assert redact(text) == (text if expected is None else expected)
    assert may_be_redacted(text) or expected is None


_FRAGMENTS = st.sampled_from(
    [
        *("AIza", "sk-", "ghp_", "AKIA", "ya29.", "xoxb-", "eyJ", "-----BEGIN PRIVATE KEY-----", "Bearer ", "basic "),
        *("api_key", "APIKEY", "private-key", "secret", "Password", "passwd", "passphrase", "access_token"),
        *("github_pat_", "sk_live_", "://", "ann:pw@", "refreshToken"),
        *("auth-token", "Authorization", "=", ": ", '": "', "a1" * 9, "A" * 31, ".", "...", " ", "\n", "é", "\u017f"),
    ]
)


@settings(max_examples=500)
@given(st.lists(_FRAGMENTS, max_size=12).map("".join))
def test_a_text_without_signs_of_secrets_contains_none(text: str) -> None:
    found = any(
        pattern.search(text)
        for pattern in (
            text_module._SECRETS,
            text_module._ASSIGNED_SECRETS,
            text_module._BEARER,
            text_module._LOGIN,
        )
    )

    assert may_be_redacted(text) or not found


@given(st.from_regex(text_module._NAMES_SECRET, fullmatch=True))
def test_names_of_secrets_are_signs_of_secrets(name: str) -> None:
    assert may_be_redacted(name)


def test_joiners_without_effect_are_shown_as_escapes() -> None:
    assert neutralise("zwj\u200d") == "zwj\\u200d"
    assert neutralise("on\ufe0f, on\u034f") == "on\\ufe0f, on\\u034f"
    assert neutralise("a\u200cb \u200d漢") == "a\\u200cb \\u200d漢"
    assert neutralise("می\u200cخواهم") == "می\u200cخواهم"


@pytest.mark.parametrize(
    ("text", "expected"), [("❤\ufe0f", "❤"), ("1\ufe0f\u20e3", "1"), ("☝🏽", "☝"), ("👩\u200d💻", "👩💻"), ("🇩🇪", "🇩🇪")]
)
def test_emoji_of_uncertain_width_are_decomposed(text: str, expected: str) -> None:
    assert neutralise(text) == expected


def test_a_score_beside_its_threshold_looks_different_unless_it_is_equal() -> None:
    assert compare_with_threshold(0.5, 0.8) == "0.50 < 0.80"
    assert compare_with_threshold(0.7999, 0.8) == "0.7999 < 0.8000"
    assert compare_with_threshold(1.0, 1.0) == "1.00 ≥ 1.00"
    assert score_text(1523.4) == "1523"
    assert compare_with_threshold(1500.4, 1500.0) == "1500.4 ≥ 1500.0"


@pytest.mark.parametrize(
    ("threshold", "shown"),
    [(1.0, "1.00"), (0.8, "0.80"), (0.995, "0.995"), (0.004, "0.004"), (1500.5, "1500.50"), (1e-9, "1e-09")],
)
def test_a_threshold_is_never_rounded(threshold: float, shown: str) -> None:
    assert format_threshold(threshold) == shown


def test_a_small_change_of_a_score_is_visible() -> None:
    assert format_score_change(0.5, 1.0) == "0.50 → 1.00 (+0.50)"
    assert format_score_change(0.8, 0.7999) == "0.8000 → 0.7999 (-0.0001)"
    assert format_score_change(0.5, 0.5) == "0.50 → 0.50"
