"""Rules that hold for every route: headers, methods, tokens, origins, hosts."""

import re
from collections import defaultdict
from pathlib import Path

import pytest
from psycopg import sql

from console.database import reading
from console.security import HEADERS, safe_next
from tests.console.addresses import every
from tests.console.people import Person

ROOT = Path(__file__).resolve().parents[2]
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PURGE")
SCRIPT = 'src="/static/console.js"'
"""The one that pages have."""
UNDER_PLAIN_HTTP = {"HTTP_HOST": "queue.example", "REMOTE_ADDR": "203.0.113.9"}


def test_every_answer_has_the_headers(app, scene, root, person):
    pages = [root.get(path) for path in every(app, scene, "GET")]
    pages += [person().get(path) for path in every(app, scene, "GET")]
    pages += [root.post(path, {}) for path in every(app, scene, "POST")]
    pages += [
        root.get("/nowhere"),
        root.get("/jobs/?state=nonsense"),
        root.get(f"/jobs/{scene.failed}/retry"),
    ]
    for answer in pages:
        assert {key: answer.headers.get(key) for key in HEADERS} == dict(HEADERS)


def test_only_static_files_may_be_kept(app, scene, root):
    for path in every(app, scene, "GET"):
        kept = "no-store" not in root.get(path).headers["Cache-Control"]
        assert kept == path.startswith("/static/"), path


def test_strict_transport_is_asked_for_only_over_https(alice, person):
    assert "Strict-Transport-Security" not in alice.get("/").headers
    assert (
        "Strict-Transport-Security"
        in person().get("/sign-in", base_url="https://localhost").headers
    )


def test_pages_have_one_script_by_its_address_and_none_of_their_own_nor_a_style(app, scene, root):
    paths = [*every(app, scene, "GET"), f"/jobs/{scene.hostile}", f"/jobs/{scene.told}", "/nowhere"]
    for path in [path for path in paths if not path.startswith("/static/")]:
        page = root.get(path).text
        page = page.replace(f"<script {SCRIPT} defer></script>", "", 1)
        assert not re.search(r"<script|<style|\sstyle=|\son\w+=\"|javascript:(?!alert)", page), path


def test_the_policy_lets_in_what_the_console_itself_serves_and_nothing_else():
    policy = HEADERS["Content-Security-Policy"]
    allowed = {part.split()[0]: set(part.split()[1:]) for part in policy.split(";")}
    assert allowed.pop("default-src") == {"'none'"}
    assert set.union(*allowed.values()) <= {"'self'", "'none'"}


def test_no_template_calls_a_value_safe():
    found = [
        path
        for path in (ROOT / "templates").rglob("*.html")
        if re.search(r"\|\s*safe|autoescape", path.read_text())
    ]
    assert found == []


def test_each_address_takes_its_own_methods_and_no_other(app, scene, root):
    taken = defaultdict(set)
    for method in METHODS:
        for path in every(app, scene, method):
            taken[path].add(method)
    for path, own in taken.items():
        for method in set(METHODS) - own:
            answer = root.open(path, method=method)
            assert answer.status_code == 405, (method, path)
            assert set(answer.headers["Allow"].split(", ")) - {"HEAD"} == own


TABLES = """
SELECT pg_class.relname::text AS name
FROM pg_class
WHERE relnamespace = 'countersign'::regnamespace AND relkind = 'r' AND relname <> 'sessions'
"""


def contents(owner):
    """Count the rows of every table, and the youngest transaction that wrote one."""
    names = [row["name"] for row in owner.execute(TABLES)]
    query = "SELECT count(*) AS rows, max(xmin::text::bigint) AS newest FROM countersign.{}"
    return {
        name: owner.execute(sql.SQL(query).format(sql.Identifier(name))).fetchone()
        for name in names
    }


def test_case_87_opening_a_page_writes_nothing(app, scene, root, shop):
    with shop.owner() as owner:
        before = contents(owner)
        for path in [
            *every(app, scene, "GET"),
            f"/jobs/{scene.review}",
            "/jobs/?state=ready&queue=x",
        ]:
            root.get(path)
        assert contents(owner) == before


def test_a_page_is_read_where_nothing_can_be_written(app):
    with app.app_context(), reading() as conn:
        assert conn.execute("SHOW transaction_read_only").fetchone() == {
            "transaction_read_only": "on"
        }


@pytest.mark.parametrize("token", [None, "", "x", "IjAi.x.y", "\0", "é" * 500])
def test_no_form_does_anything_without_its_token(app, scene, alice, root, stands, job_at, token):
    job = job_at("failed")
    form = {**alice.form(job, "retry"), "reason": "deploy_error"}
    del form["csrf_token"]
    answer = alice.post(
        f"/jobs/{job}/retry", form if token is None else {**form, "csrf_token": token}
    )
    assert answer.status_code == 400
    assert "deploy_error" in answer.text
    assert stands(job) == ("failed", [])
    for path in every(app, scene, "POST"):
        assert root.post(path, {} if token is None else {"csrf_token": token}).status_code == 400
    assert alice.get("/").status_code == 200


def test_a_token_of_somebody_elses_session_is_worth_nothing(alice, person, job_at, stands):
    job, bob = job_at("failed"), person("ops:bob")
    form = {**alice.form(job, "retry"), "reason": "deploy_error", "csrf_token": bob.token()}
    assert alice.post(f"/jobs/{job}/retry", form).status_code == 400
    assert stands(job) == ("failed", [])


ELSEWHERE = [
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"Sec-Fetch-Site": ""},
    {"Sec-Fetch-Site": "same-origin, cross-site"},
    {"Sec-Fetch-Site": "cross-site", "Origin": "http://localhost"},
    {"Origin": "https://evil.example"},
    {"Origin": "https://localhost"},
    {"Origin": "http://localhost:8001"},
    {"Origin": "http://localhost.evil.example"},
    {"Origin": "null"},
    {"Origin": ""},
]


@pytest.mark.parametrize("headers", ELSEWHERE, ids=str)
def test_case_87_a_form_from_another_site_is_refused_whatever_its_token(
    app, scene, alice, job_at, stands, headers
):
    job = job_at("failed")
    form = {**alice.form(job, "retry"), "reason": "deploy_error"}
    answer = alice.post(f"/jobs/{job}/retry", form, headers=headers)
    assert answer.status_code == 403
    assert "another site" in answer.text
    assert stands(job) == ("failed", [])
    for path in every(app, scene, "POST"):
        assert alice.post(path, form, headers=headers).status_code == 403


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Sec-Fetch-Site": "same-origin"},
        {"Sec-Fetch-Site": "none"},
        {"Origin": "http://localhost"},
    ],
    ids=str,
)
def test_a_form_from_a_page_of_ours_is_taken(alice, job_at, headers):
    job = job_at("failed")
    form = {**alice.form(job, "retry"), "reason": "deploy_error"}
    assert alice.post(f"/jobs/{job}/retry", form, headers=headers).status_code == 303


@pytest.mark.parametrize(
    "host",
    [
        "queue.example",
        "evil.example:80",
        "127.0.0.1.evil.example",
        "[::1",
        "0.0.0.0",
        "10.0.0.1",
        "localhost@evil.example",
        "localhost/x",
        "%00",
        "",
        "a" * 900,
    ],
)
def test_a_host_name_that_is_not_ours_is_refused(person, host):
    answer = person().get("/sign-in", headers={"Host": host})
    assert answer.status_code == 400
    assert "Operator code" not in answer.text


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LOCALHOST:8000",
        "localhost.",
        "127.0.0.1:9",
        "127.1.2.3",
        "[::1]:8000",
        "[::1]",
    ],
)
def test_names_of_this_machine_are_answered(person, host):
    assert person().get("/sign-in", headers={"Host": host}).status_code == 200


def test_more_host_names_can_be_set(app_on, shop, scene):
    app = app_on(shop.url, QUEUE_HOSTS="Queue.Example, other.example")
    assert Person(app).get("/healthz", headers={"Host": "queue.example:443"}).status_code == 200
    assert Person(app).get("/healthz", headers={"Host": "third.example"}).status_code == 400


@pytest.mark.parametrize(
    "address",
    ["/", "/jobs/?state=failed&queue=a%2Fb", "/jobs/x?next=//y", "/%5Cevil.example", "/a:b@c"],
)
def test_next_leads_to_pages_of_ours(address):
    assert safe_next(address) == address


OFF = [
    *(None, "", "jobs", "//evil.example", "///evil.example", "/\\evil.example", "\\\\evil.example"),
    *("http://evil.example/", "https:evil.example", "javascript:alert(1)", "/\t/evil.example"),
    *("/\n/evil.example", " //evil.example", "/\u2028x", "/\u00a0x", "/\u202ex", "\0/", "//["),
    *("/" + "a" * 2_001, "http:///evil.example", "/[evil\\"),
]


@pytest.mark.parametrize("address", OFF, ids=repr)
def test_next_leads_nowhere_else(person, address):
    assert safe_next(address) is None
    answer = person().sign_in("ops:alice", next=address or "")
    assert (answer.status_code, answer.headers["Location"]) == (303, "/")


def test_a_cookie_over_https_is_bound_to_the_host_and_to_https(person):
    answer = person().get("/sign-in", base_url="https://localhost")
    (cookie,) = answer.headers.getlist("Set-Cookie")
    assert cookie.startswith("__Host-countersign=")
    for part in ("Secure", "HttpOnly", "SameSite=Lax", "Path=/"):
        assert part in cookie
    assert "Domain" not in cookie


def test_a_cookie_on_this_machine_is_out_of_reach_of_scripts_and_other_sites(person):
    (cookie,) = person().get("/sign-in").headers.getlist("Set-Cookie")
    assert cookie.startswith("countersign=")
    assert "HttpOnly" in cookie
    assert "SameSite=Lax" in cookie
    assert "Secure" not in cookie
