"""Whatever is sent or stored: a clear answer, nothing half-written, nothing taken for markup."""

from html import escape
from urllib.parse import urlencode

import pytest

from queue_core.states import ACT_VERBS, MARKS, STATES
from tests.conftest import CANARY
from tests.console.addresses import filled, with_value
from tests.console.people import forms
from tests.console.scenes import HOSTILE, NAUGHTY

MARK = "<img src=x onerror=alert(1)>"
VALUES = {
    "markup": f"{MARK}</script></title>\"'><b>",
    "a template": "{{4813*7919}}{% raw %}${4813*7919}#{4813*7919}",
    "quotes and percents": "'\"`;--%%s%(name)s%00%0d%0a%",
    "NUL": "a\0b",
    "controls": "\x01\x1b[31m\x7f\r\nSet-Cookie: x=1\r\n\r\n",
    "a lone surrogate": "\ud800",
    "direction marks": "\u202egnp.exe\u2066\u200b\ufeff",
    "a huge number": "9" * 5_000,
    "1e5000": "1e5000",
    "minus one": "-1",
    "no number": "NaN",
    "a path": "../../../../etc/passwd",
    "long": "x" * 60_000,
    "astral": "😀" * 500 + "e\u0301\u0301",
    "nothing": "",
    "a scheme": "javascript:alert(1)",
}
RAW = {
    "bytes that are no UTF-8": b"\xff\xfe\xc0\xaf",
    "half a character": b"%E2%82",
    "overlong": b"%C0%AF",
}
hostile = pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
QUERY = ("state", "fate", "queue", "name", "after", "before", "next", "page", "csrf_token")
QUERY += ("list", "form")
QUERY += ("by", "act", "reason", "kind", "subject", "since", "until", "bulk", "code")
QUERY += ("q", "error_type", "error_place", "worker", "schedule", "operator", "from", "to", "rows")
QUERY += ("not_queue", "not_name", "not_error_type", "not_worker", "not_operator", "tick")
FIELDS = (
    "operator_code",
    "reason",
    "note",
    "seen_state",
    "seen_attempt",
    "next",
    "code",
    "password",
    "kept",
    "unheard_of",
)


def check(answer):
    """A client's doing is never the console's fault, and nothing sent comes back as markup."""
    assert answer.status_code < 500, answer.text
    if (
        answer.headers["Content-Type"] != "text/csv; charset=utf-8"
    ):  # its cells are as they were typed
        assert MARK not in answer.text
    assert CANARY not in answer.text
    assert "Set-Cookie: x=1" not in str(answer.headers)
    assert answer.headers["Content-Security-Policy"]


def paths(app, value):
    """Every address that has a place, with the value in it, and some that only look like ours."""
    for rule in app.url_map.iter_rules():
        if with_value(rule, value) != rule.rule:
            yield with_value(rule, value)
    yield from (
        f"/{value}",
        f"/jobs/{value}/{value}",
        f"/jobs/00000000-0000-0000-0000-000000000000{value}",
    )


def encoded(text, most=3_000):
    """Return text as a client may put it into an address, broken characters and all."""
    raw = text.encode(errors="surrogatepass")
    return "".join(f"%{byte:02X}" for byte in raw[:most])


@pytest.mark.no_cover  # what is refused here is covered where it is asked rightly
@hostile
def test_in_the_address(app, root, value):
    for path in paths(app, encoded(value)):
        check(root.get(path))
        check(root.post(path, {"csrf_token": "x"}))


@pytest.mark.no_cover
@hostile
def test_in_the_query_of_every_address(app, root, scene, value):
    """All names at once at every address; and, lest one hides another, each by itself.

    Every address that lists something has every value, the others and each name four of them.
    """
    query = "&".join(f"{name}={encoded(value, most=100)}" for name in QUERY)
    turn = [*VALUES.values()].index(value) % 4
    for number, rule in enumerate(app.url_map.iter_rules()):
        path = filled(rule, scene)
        if path != "/sign-out" and (path.endswith("/") or number % 4 == turn):
            check(root.get(f"{path}?{query}"))
        if path != "/sign-out" and number % 4 == turn:
            check(root.post(f"{path}?{query}", {"csrf_token": "x"}))
    for name in QUERY[turn::4]:
        for path in ("/jobs/", "/acts/"):
            check(root.get(f"{path}?{name}={encoded(value)}"))


@pytest.mark.parametrize("raw", RAW.values(), ids=RAW)
def test_bytes_that_are_no_text(app, alice, person, scene, raw):
    for somebody in (alice, person()):
        for path in (f"/jobs/{scene.failed}", "/jobs/", "/sign-in", "/"):
            text = raw.decode("latin-1")
            check(somebody.get(path, query_string=f"queue={text}&next={text}&after={text}"))
        check(somebody.open("/", environ_overrides={"PATH_INFO": f"/jobs/{text}"}))


def body(fields):
    """Return fields as a client may send them, broken characters and all."""
    return urlencode({key: value.encode(errors="surrogatepass") for key, value in fields.items()})


FORM = "application/x-www-form-urlencoded"


@hostile
def test_in_every_field_of_an_act(alice, job_at, stands, value):
    job = job_at("failed")
    form = alice.form(job, "retry")
    for turn, name in enumerate(FIELDS, start=[*VALUES.values()].index(value)):
        sent = body({**form, name: value})
        for verb in ("retry", ACT_VERBS[turn % len(ACT_VERBS)]):
            if name != "reason" or verb != "retry":
                check(alice.post(f"/jobs/{job}/{verb}", sent, content_type=FORM))
    assert stands(job) == ("failed", [])
    answer = alice.post(f"/jobs/{job}/retry", body({**form, "reason": value}), content_type=FORM)
    check(answer)
    assert stands(job) == (("ready", ["retried"]) if answer.status_code == 303 else ("failed", []))


@hostile
@pytest.mark.parametrize("verb", MARKS)
def test_in_every_field_of_an_act_that_moves_nothing(alice, job_at, stands, value, verb):
    job = job_at("failed")
    form = {**alice.form(job, verb), "reason": "x", "note": "x"}
    for name in FIELDS[[*VALUES.values()].index(value) % 2 :: 2]:  # each has eight of the values
        sent = body({**form, name: value})
        answer = alice.post(f"/jobs/{job}/{verb}", sent, content_type=FORM)
        assert answer.status_code in {200, 303, 400, 409}
        assert MARK not in answer.text
        assert (CANARY in answer.text) == (answer.status_code == 200)
    check(alice.get(f"/jobs/{job}"))
    assert stands(job)[0] == "failed"


@hostile
def test_in_every_field_of_the_sign_in(person, value):
    nobody = person(REMOTE_ADDR=f"203.0.113.{list(VALUES.values()).index(value)}")
    form = forms(nobody.get("/sign-in"))["/sign-in"]
    for name in ("code", "password", "next", "kept"):
        sent = {**form, "code": "ops:nobody", "password": "none that fits", name: value}
        answer = nobody.post("/sign-in", body(sent), content_type=FORM)
        check(answer)
        assert answer.status_code in {400, 429}


@hostile
def test_in_every_field_at_once_with_nobody_signed_in(person, scene, value):
    sent = body(dict.fromkeys(FIELDS, value))
    answer = person().post(f"/jobs/{scene.failed}/retry", sent, content_type=FORM)
    check(answer)
    assert answer.status_code in {401, 413}


SENT_ALONG = (
    "HTTP_COOKIE",
    "HTTP_ORIGIN",
    "HTTP_SEC_FETCH_SITE",
    "HTTP_USER_AGENT",
    "HTTP_REFERER",
)
SENT_ALONG += ("HTTP_ACCEPT", "CONTENT_TYPE", "HTTP_X_FORWARDED_FOR", "HTTP_X_FORWARDED_HOST")
SENT_ALONG += ("HTTP_IF_NONE_MATCH", "HTTP_RANGE", "HTTP_AUTHORIZATION")


@hostile
def test_in_headers_and_cookies(person, value):
    sent = value.replace("\r", "").replace("\n", "").encode(errors="replace").decode("latin-1")
    for name in SENT_ALONG:
        environ = {name: sent}
        check(person().get("/jobs/", environ_overrides=environ))
        check(person().open("/sign-in", method="POST", data=b"a=b", environ_overrides=environ))
    for cookie in (sent, f"countersign={sent}", f"countersign={sent[:50]}.x.y"):
        check(person().get("/", environ_overrides={"HTTP_COOKIE": cookie}))


def parts(count, size, filename=""):
    """Return a body of many parts, as a form with files sends it."""
    named = f'; filename="{filename}"' if filename else ""
    one = '--b\r\nContent-Disposition: form-data; name="k{}"{}\r\n\r\n{}\r\n'
    return "".join(one.format(n, named, "x" * size) for n in range(count)) + "--b--\r\n"


PARTS = "multipart/form-data; boundary=b"
BODIES = {
    "5 MB in one field": ("note=" + "x" * 5_000_000, FORM),
    "5 MB of fields": ("&".join(f"k{n}={'x' * 30}" for n in range(150_000)), FORM),
    "5 MB in a part": (parts(1, 5_000_000), PARTS),
    "5 MB in a file": (parts(1, 5_000_000, "note.txt"), PARTS),
    "many parts": (parts(2_000, 1), PARTS),
}


@pytest.mark.parametrize("name", BODIES)
def test_a_body_that_is_too_large_is_refused_as_that(alice, person, scene, name):
    sent, kind = BODIES[name]
    for path in (f"/jobs/{scene.failed}/retry", "/sign-in", "/sign-out", "/nowhere"):
        for somebody in (alice, person()):
            answer = somebody.open(path, method="POST", data=sent, content_type=kind)
            check(answer)
            assert answer.status_code == 413, path
            assert "Too large" in answer.text


def test_a_length_that_is_a_lie_is_taken_at_its_word(alice):
    lie = {"CONTENT_LENGTH": "999999999"}
    answer = alice.open(
        "/sign-in", method="POST", data="a=b", content_type=FORM, environ_overrides=lie
    )
    check(answer)
    assert answer.status_code == 413


@pytest.mark.parametrize(
    "kind",
    [
        "application/json",
        "multipart/form-data",
        "multipart/form-data; boundary=",
        "text/plain",
        "",
        "x" * 500,
    ],
)
def test_a_body_of_another_kind_is_no_form(alice, scene, kind):
    answer = alice.open(
        f"/jobs/{scene.failed}/retry", method="POST", data=b'{"a": 1}', content_type=kind
    )
    check(answer)
    assert answer.status_code == 400


def test_case_86_what_is_stored_is_shown_and_never_taken_for_markup(alice, scene):
    page, list_page = (
        alice.get(f"/jobs/{scene.hostile}").text,
        alice.get("/jobs/?state=failed&queue=mail").text,
    )
    for text in (page, list_page):
        assert MARK not in text
        assert text.count("</script>") == 1  # the console's own
        assert "\u202e" not in text
        assert str(escape(NAUGHTY)).replace("&quot;", "&#34;").replace("&#x27;", "&#39;") in text
        assert "⟨U+202E⟩" in text
    assert (
        "38114147"
        not in page.replace(str(scene.hostile), "").partition("Timeline")[0].partition("<main")[2]
    )
    assert len(HOSTILE) < len(page)


def test_a_long_error_is_cut_with_the_whole_of_it_a_click_away(alice, scene):
    page = alice.get(f"/jobs/{scene.hostile}").text
    start, _, whole = page.partition('<summary><bdi class="start">')[2].partition("</summary>")
    assert len(start) < 600
    assert " and so on" * 80 in whole.partition("</details>")[0]


def test_no_page_shows_an_argument(alice, scene):
    jobs = [job for job in vars(scene).values() if not isinstance(job, tuple)]
    pages = [f"/jobs/?state={state}" for state in STATES] + [f"/jobs/{job}" for job in jobs]
    for path in ["/", *pages]:
        assert CANARY not in alice.get(path).text, path
