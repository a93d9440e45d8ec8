"""What looks secret is masked, wherever it stands; the rest is shown as it was given."""

import json

import pytest

from console.masking import MASK, MOST_INDENTED_CHARACTERS, looks_secret, masked
from queue_core.jobs import encode

SECRET = [
    *(
        "password",
        "PASSWORD",
        "Password2",
        "db_password",
        "user.passwd",
        "pwd",
        "pass",
        "passphrase",
    ),
    *("secret", "client-secret", "token", "accessToken", "refresh_tokens", "apiKey"),
    *("API_KEY", "x-api-key", "APIKey", "privateKey", "access_key", "Authorization", "auth"),
    *("auth_header", "oauth", "Set-Cookie", "session_id", "pin", "userPin", "otp", "cvv", "dsn"),
    *(
        "card_number",
        "credentials",
        "jwt",
        "p.a.s.s.w.o.r.d",
        "ｐａｓｓｗｏｒｄ",
        "ſecret",
        "bearer",
    ),
]
PLAIN = [
    *("order", "author", "authority", "passenger", "compass", "monkey", "key", "shipping"),
    *("spinner", "panel", "address", "", "path", "options", "object_key", "hotpot", "idsn"),
]


@pytest.mark.parametrize("key", SECRET)
def test_a_key_that_looks_secret_hides_its_value(key):
    assert looks_secret(key)
    assert "hunter2" not in (masked(json.dumps({key: "hunter2"})) or "")


@pytest.mark.parametrize("key", PLAIN)
def test_a_key_that_only_resembles_one_does_not(key):
    assert not looks_secret(key)


NESTED = [
    {"a": {"b": [{"c": {"password": "hunter2"}}]}},
    {"password": {"old": "hunter2", "new": ["hunter2"]}},
    {"tokens": ["hunter2", {"x": "hunter2"}]},
    {"headers": [{"name": "Authorization", "value": "hunter2"}]},
    {"env": [{"Key": "DB_PASSWORD", "VALUE": {"x": "hunter2"}}]},
    {"url": "postgres://bob:hunter2@db.example/shop"},
    {"text": "see https://bob:hunter2@example.org/x and amqp://x:hunter2@y"},
    {"body": '{"user": "bob", "password": "hunter2"}'},
    {"body": ' [{"deep": "{\\"secret\\": \\"hunter2\\"}"}]'},
]


@pytest.mark.parametrize("args", NESTED, ids=str)
def test_nested_ones_are_hidden_too(args):
    text = masked(encode("x", args))
    assert text
    assert "hunter2" not in text
    assert MASK in text


def test_all_else_is_shown_as_it_was_given():
    args = {"order": "88121", "n": [1, 2.5, None, True], "text": "ünï\n{not json", "o": {}}
    text = masked(encode("x", args))
    assert json.loads(text or "") == args
    assert '\n  "order": "88121"' in (text or "")
    assert "ünï" in (text or "")


def test_text_that_is_json_without_secrets_is_left_as_it_was_written():
    assert '"{ \\"a\\":1 }"' in (masked(json.dumps({"body": '{ "a":1 }'})) or "")


@pytest.mark.parametrize(
    "text", ["", "[1]", "7", "{", '{"a": 1' + "0" * 5_000 + "}", '{"a":' + "[" * 20_000]
)
def test_what_cannot_be_read_is_not_shown_at_all(text):
    assert masked(text) is None


def test_deep_arguments_are_not_blown_up_by_being_laid_out():
    deep: list[object] = list(range(20_000))
    for _ in range(50):
        deep = [deep]
    text = encode("x", {"deep": deep})
    assert len(masked(text) or "") < MOST_INDENTED_CHARACTERS
