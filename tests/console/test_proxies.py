"""Behind a proxy: its word counts from a configured address, and from nowhere else."""

import pytest

from queue_core import sessions
from tests.console.people import Person, forms
from tests.console.scenes import PASSWORD

FORWARDED = {
    "X-Forwarded-Proto": "https",
    "X-Forwarded-Host": "queue.example",
    "X-Forwarded-For": "198.51.100.1, 203.0.113.7",
    "X-Forwarded-Prefix": "/ops",
}
SETTINGS = {"QUEUE_HOSTS": "queue.example", "QUEUE_PROXIES": "10.0.4.7, 10.1.0.0/16, fd00::/8"}


@pytest.fixture
def behind(app_on, shop, scene):
    """Give a function that makes somebody behind a proxy at an address."""
    app = app_on(shop.url, **SETTINGS)

    def at(address="10.0.4.7"):
        somebody = Person(app, REMOTE_ADDR=address)
        somebody.client = app.test_client(use_cookies=False)  # it looks below /ops for none
        somebody.client.environ_base["REMOTE_ADDR"] = address
        return somebody

    return at


def sign_in_page(somebody, **changed):
    headers = {key: value for key, value in {**FORWARDED, **changed}.items() if value is not None}
    return somebody.get("/sign-in", headers=headers)


@pytest.mark.parametrize("address", ["10.0.4.7", "10.1.200.3", "fd00::5", "::ffff:10.0.4.7"])
def test_somebody_behind_a_known_proxy_can_sign_in_and_act(behind, job_at, stands, address):
    somebody, job = behind(address), job_at("failed")
    page = sign_in_page(somebody)
    assert "Strict-Transport-Security" not in page.headers
    (cookie,) = page.headers.getlist("Set-Cookie")
    assert cookie.startswith("__Secure-countersign=")
    assert "Path=/ops" in cookie
    sent = {**FORWARDED, "Origin": "https://queue.example"}
    form = forms(page)["/ops/sign-in"]
    form |= {"code": "ops:bob", "password": PASSWORD, "next": f"/ops/jobs/{job}"}
    own = cookie_of(page)
    answer = somebody.post("/sign-in", form, headers={**sent, "Cookie": own})
    assert (answer.status_code, answer.headers["Location"]) == (303, f"/ops/jobs/{job}")
    own = cookie_of(answer)
    page = somebody.get(f"/jobs/{job}", headers={**FORWARDED, "Cookie": own})
    form = {**forms(page)[f"/ops/jobs/{job}/retry"], "reason": "deploy_error"}
    headers = {**sent, "Cookie": cookie_of(page)}
    answer = somebody.post(f"/jobs/{job}/retry", form, headers=headers)
    assert answer.headers["Location"] == f"/ops/jobs/{job}"
    assert stands(job) == ("ready", ["retried"])


def cookie_of(answer):
    return answer.headers["Set-Cookie"].partition(";")[0]


@pytest.mark.parametrize("address", ["10.0.4.8", "127.0.0.1", "203.0.113.7", "", "unix:", "::1"])
def test_from_any_other_address_the_headers_mean_nothing(behind, address):
    somebody = behind(address)
    page = sign_in_page(somebody, **{"X-Forwarded-Host": None})
    assert page.status_code == 200
    assert "Strict-Transport-Security" not in page.headers
    assert "Path=/;" in page.headers["Set-Cookie"] + ";"
    assert "/sign-in" in forms(page)
    assert somebody.get("/sign-in", headers={**FORWARDED, "Host": "queue.example"}).text.count(
        "Not over this connection"
    )


def test_without_the_setting_no_proxy_is_believed(app_on, shop, scene):
    somebody = Person(app_on(shop.url, QUEUE_HOSTS="queue.example"))
    page = somebody.get("/sign-in", headers={**FORWARDED, "Host": "queue.example"})
    assert "Not over this connection" in page.text
    assert "QUEUE_PROXIES" in page.text


def test_a_proxy_without_a_prefix_is_one_of_the_hosts_name(behind):
    page = sign_in_page(behind(), **{"X-Forwarded-Prefix": None})
    assert page.headers["Strict-Transport-Security"]
    assert page.headers["Set-Cookie"].startswith("__Host-countersign=")
    assert "/sign-in" in forms(page)


@pytest.mark.parametrize(
    "prefix",
    [
        "//evil.example",
        "/..",
        "/a/../b",
        "https://evil.example",
        "/a b",
        "/a\\b",
        "ops",
        "/%2e",
        "/a,/b",
    ],
)
def test_a_prefix_that_is_none_is_left_out(behind, prefix):
    page = sign_in_page(behind(), **{"X-Forwarded-Prefix": prefix})
    assert page.status_code == 200
    assert "/sign-in" in forms(page)
    assert "evil" not in page.text


def test_a_slash_at_the_end_of_the_prefix_does_no_harm(behind):
    assert "/ops/sign-in" in forms(sign_in_page(behind(), **{"X-Forwarded-Prefix": "/ops/"}))


@pytest.mark.parametrize("scheme", ["http", "javascript", "", "https, http", "HTTPS x"])
def test_a_password_is_not_asked_for_where_the_proxy_was_spoken_to_in_the_clear(behind, scheme):
    page = sign_in_page(behind(), **{"X-Forwarded-Proto": scheme})
    assert "Not over this connection" in page.text
    headers = {**FORWARDED, "X-Forwarded-Proto": scheme}
    moved = behind().get("/jobs", headers=headers).headers["Location"]
    assert moved == "http://queue.example/ops/jobs/"


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", "[::1]:8000", "evil.example", "a b"])
def test_a_name_of_this_machine_is_none_for_whoever_asks_a_proxy(behind, name):
    assert sign_in_page(behind(), **{"X-Forwarded-Host": name}).status_code == 400


def test_whoever_asks_the_machine_itself_needs_no_proxy(app_on, shop, scene):
    app = app_on(shop.url, QUEUE_PROXIES="127.0.0.1")
    assert "password" in forms(Person(app).get("/sign-in"))["/sign-in"]


def test_tries_are_counted_for_the_address_that_the_proxy_saw(behind, monkeypatch):
    seen = []

    def sign_in(conn, code, password, *, address, agent):
        seen.append(address)
        raise sessions.OperatorRefusedError("no")

    monkeypatch.setattr(sessions, "sign_in", sign_in)
    somebody = behind()
    page = sign_in_page(somebody)
    form = {**forms(page)["/ops/sign-in"], "code": "x", "password": "y"}
    somebody.post("/sign-in", form, headers={**FORWARDED, "Cookie": cookie_of(page)})
    assert seen == ["203.0.113.7"]
