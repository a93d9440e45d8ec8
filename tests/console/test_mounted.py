"""The console in a Flask service: all of it under a prefix, and nothing of the host changed."""

import html
import re
import threading

import pytest
from flask import abort
from werkzeug.middleware.proxy_fix import ProxyFix

from console import Countersign, create_app, patience
from console.rights import OWN_SIGN_IN
from queue_core import operators
from queue_core.queries import acts
from queue_core.settings import from_environment
from tests.console.hosts import PAGES, close, mounted, service
from tests.console.people import Person, forms
from tests.console.scenes import PASSWORD
from tests.console.serving import KEY


@pytest.fixture
def mount(shop, scene):
    """Give a function that mounts a console; its connections are closed after the test."""
    made = []

    def put(*given, **more):
        made.append(mounted(shop.url, *given, **more))
        return made[-1]

    yield put
    for app in made:
        close(app)


@pytest.fixture
def host(mount):
    return mount()


@pytest.fixture
def own(mount):
    """Give a service whose console has its own sign-in."""
    return mount(identify=None)


@pytest.fixture
def guest(host):
    """Give a function that lets somebody in by the host's sign-in."""

    def enter(code="shop:gina", role="operator"):
        somebody = Person(host)
        assert somebody.get(f"/enter/{code}/{role}").status_code == 200
        return somebody

    return enter


def told(answer):
    return answer.status_code, sorted(answer.headers.items()), answer.data


@pytest.mark.parametrize("path", [*PAGES, "/?closed", "/enter/a/viewer", "*"])
def test_nothing_of_the_host_changes(host, path):
    assert told(host.test_client().get(path)) == told(service().test_client().get(path))


def test_the_hosts_forms_are_its_own(host):
    answer = host.test_client().post("/echo", data={"reason": "no token needed"})
    assert answer.text == "no token needed"
    assert host.extensions == service().extensions
    assert dict(host.config) == dict(service().config)


def test_the_hosts_rules_error_pages_and_templates_do_not_reach_the_console(guest):
    somebody = guest()
    for path in ("/ops/", "/ops/jobs/", "/ops/nowhere", "/ops/?closed"):
        page = somebody.get(path)
        assert page.status_code == (404 if path == "/ops/nowhere" else 200)
        assert "X-Shop" not in page.headers
        assert "shop's own" not in page.text.lower().replace("the shop</h1>", "the shop's own")
        assert "frame-ancestors" in page.headers["Content-Security-Policy"]


@pytest.mark.parametrize("path", ["/ops", "/ops/"])
def test_it_begins_at_its_prefix_with_and_without_a_slash(guest, path):
    assert "<title>Overview ·" in guest().get(path, follow_redirects=True).text


def test_every_address_on_its_pages_lies_under_the_prefix(guest, scene):
    somebody = guest(role="admin")
    for path in ("/", "/jobs/", f"/jobs/{scene.failed}", f"/jobs/{scene.told}", "/nowhere"):
        page = somebody.get(f"/ops{path}").text
        found = re.findall(r'(?:href|src|action)="([^"#]*)"(?! rel="noreferrer")', page)
        assert found
        assert [
            each
            for each in found
            if not re.match(r"/ops/|\?|https://runbooks", html.unescape(each))
        ] == []
    assert somebody.get("/ops/static/console.css").status_code == 200


def test_its_cookie_is_its_own_and_stays_under_the_prefix(own):
    plain = Person(own).get("/ops/sign-in").headers.getlist("Set-Cookie")
    secure = Person(own).get("/ops/sign-in", base_url="https://localhost")
    assert len(plain) == 1
    assert plain[0].startswith("countersign=")
    (cookie,) = secure.headers.getlist("Set-Cookie")
    assert cookie.startswith("__Secure-countersign=")
    for part in ("Secure", "HttpOnly", "SameSite=Lax", "Path=/ops"):
        assert part in cookie
    assert "Path=/ops" in plain[0]


def test_it_speaks_for_its_own_pages_about_https_not_for_the_hosts_name(own):
    page = Person(own).get("/ops/sign-in", base_url="https://localhost")
    assert "Strict-Transport-Security" not in page.headers


def test_its_own_sign_in_works_under_the_prefix(own, job_at, stands):
    somebody, job = Person(own), job_at("failed")
    asked = somebody.get(f"/ops/jobs/{job}")
    assert asked.headers["Location"] == f"/ops/sign-in?next=/ops/jobs/{job}"
    form = forms(somebody.get(asked.headers["Location"]))["/ops/sign-in"]
    answer = somebody.post("/ops/sign-in", {**form, "code": "ops:bob", "password": PASSWORD})
    assert (answer.status_code, answer.headers["Location"]) == (303, f"/ops/jobs/{job}")
    act = f"/ops/jobs/{job}/retry"
    form = forms(somebody.get(f"/ops/jobs/{job}"))[act]
    answer = somebody.post(act, {**form, "reason": "deploy_error"})
    assert answer.headers["Location"] == f"/ops/jobs/{job}"
    assert stands(job) == ("ready", ["retried"])
    assert "Sign out" in somebody.get("/ops/").text


def retry_form(somebody, job):
    page = somebody.get(f"/ops/jobs/{job}")
    return {**forms(page)[f"/ops/jobs/{job}/retry"], "reason": "deploy_error"}


def test_acts_are_signed_with_the_code_that_the_host_gives(guest, job_at, books, stands):
    job, gina = job_at("failed"), guest()
    answer = gina.post(f"/ops/jobs/{job}/retry", retry_form(gina, job))
    assert answer.status_code == 303
    (act,) = acts.acts_of(books, job)
    assert (act.by, act.reason) == ("shop:gina", "deploy_error")
    (row,) = books.execute("SELECT via FROM countersign.acts WHERE subject_id = %s", [job])
    assert re.fullmatch(r"console:host:[0-9a-f]{16}", str(row["via"]))


def test_the_role_is_the_hosts_too(guest, job_at, stands):
    job, viewer = job_at("failed"), guest(role="viewer")
    page = viewer.get(f"/ops/jobs/{job}")
    assert f"/ops/jobs/{job}/retry" not in forms(page)
    form = {**retry_form(guest(), job), "csrf_token": "x"}
    assert viewer.post(f"/ops/jobs/{job}/retry", form).status_code == 403
    assert stands(job) == ("failed", [])


def test_no_form_is_taken_without_its_token_whoever_the_host_names(guest, job_at, stands):
    job, gina = job_at("failed"), guest()
    form = retry_form(gina, job)
    for token in ("", "x", retry_form(guest("shop:other"), job)["csrf_token"]):
        forged = {**form, "csrf_token": token}
        assert gina.post(f"/ops/jobs/{job}/retry", forged).status_code == 400
    del form["csrf_token"]
    assert gina.post(f"/ops/jobs/{job}/retry", form).status_code == 400
    assert stands(job) == ("failed", [])


def test_another_person_in_the_same_browser_begins_with_new_tokens(guest, job_at, stands):
    job, somebody = job_at("failed"), guest("shop:gina")
    form = retry_form(somebody, job)
    somebody.get("/enter/shop:hugo/operator")
    answer = somebody.post(f"/ops/jobs/{job}/retry", {**form, "operator_code": "shop:hugo"})
    assert answer.status_code == 400
    assert somebody.post(f"/ops/jobs/{job}/retry", form).status_code == 400
    assert stands(job) == ("failed", [])


def test_where_the_host_signs_people_in_the_console_offers_no_sign_in(host, guest):
    assert set(forms(guest().get("/ops/"))) == set()
    rules = create_app(from_environment({"QUEUE_SECRET_KEY": KEY})).url_map.iter_rules()
    hidden = {rule.rule: rule.methods for rule in rules if rule.endpoint in OWN_SIGN_IN}
    assert {"/sign-in", "/sign-out"} <= set(hidden)
    for somebody in (Person(host), guest()):
        for path, methods in hidden.items():
            method = "POST" if "POST" in (methods or ()) else "GET"
            assert somebody.open(f"/ops{path}", method=method).status_code == 404


def test_no_page_leads_to_what_the_host_looks_after_and_by_hand_it_says_why(guest, scene):
    admin = guest(role="admin")
    own = {"/operators/", "/account/", "/sign-in", "/sign-out", "/operators/one"}
    pages = ["/", "/jobs/", f"/jobs/{scene.failed}", "/review/", "/acts/", "/acts/1", "/queues/"]
    for path in pages:
        page = admin.get(f"/ops{path}").text
        links = {link.partition("?")[0] for link in re.findall(r'(?:href|action)="([^"]*)"', page)}
        assert links.isdisjoint({f"/ops{each}" for each in own}), path
    for path in ("/operators/", "/account/"):
        page = admin.get(f"/ops{path}")
        assert page.status_code == 404
        assert "Operators, passwords and sessions are looked after there." in page.text


def test_who_is_not_signed_in_to_the_host_is_told_so(host, job_at):
    nobody = Person(host)
    page = nobody.get("/ops/jobs/")
    assert page.status_code == 401
    assert "Sign in to the service that this console is part of" in page.text
    sent = nobody.post(f"/ops/jobs/{job_at('failed')}/retry", {"reason": "typed <b>this</b>"})
    assert sent.status_code == 401
    assert "typed &lt;b&gt;this&lt;/b&gt;" in sent.text
    assert nobody.get("/ops/healthz").status_code == 200


def test_who_signs_out_of_the_host_is_out_at_once(host, guest):
    somebody = guest()
    assert somebody.get("/ops/").status_code == 200
    somebody.client.delete_cookie("session")
    assert somebody.get("/ops/").status_code == 401


def test_a_code_that_was_disabled_here_is_refused_whatever_the_host_says(shop, host, guest):
    with shop.owner() as owner:
        signed = {"by": "ops:root", "reason": "test", "via": "cli:x@y"}
        operators.add(owner, "shop:ines", "viewer", PASSWORD, **signed)
        ines = guest("shop:ines", "admin")
        assert ines.get("/ops/").status_code == 200
        operators.disable(owner, "shop:ines", **signed)
    page = ines.get("/ops/")
    assert page.status_code == 403
    assert "disabled" in page.text


@pytest.mark.parametrize(
    "said",
    [
        *("ops:gina", ("ops:gina",), ("ops:gina", "root"), ("ops:gina", ""), (7, "viewer")),
        *(("", "viewer"), ("a\u202eb", "viewer"), ("x" * 201, "viewer"), ("setup:x", "admin")),
        *(("ops:gina", "viewer", "more"), True, {}, ("ops:gina", None), ("ops:gina", [])),
    ],
    ids=repr,
)
def test_what_no_host_should_say_opens_nothing_and_is_logged_without_the_code(mount, caplog, said):
    page = Person(mount(lambda _: said)).get("/ops/jobs/")
    assert page.status_code == 503
    assert "It is not known who you are" in page.text
    assert "IdentifyError" in caplog.text
    assert "gina" not in caplog.text


def breaks(_):
    raise KeyError("gina's password")


@pytest.mark.parametrize("debug", [False, True])
def test_what_breaks_in_identify_is_told_by_a_page_and_its_text_by_nothing(
    mount, scene, caplog, debug
):
    app = mount(breaks)
    app.debug = debug
    gina = Person(app)
    retry = f"/ops/jobs/{scene.failed}/retry"
    for page in (gina.get("/ops/jobs/"), gina.post(retry, {"reason": "<b>typed"})):
        assert page.status_code == 503
        assert "It is not known who you are" in page.text
        assert "Traceback" not in page.text
        assert "gina" not in page.text
    assert "&lt;b&gt;typed" in page.text
    assert "identify raised KeyError (breaks:" in caplog.text
    assert "gina" not in caplog.text


@pytest.mark.parametrize(
    ("answer", "status", "sentence"),
    [
        (401, 401, "Sign in to the service"),
        (403, 403, "does not let you in here"),
        (404, 503, "It is not known who you are"),
        (500, 503, "It is not known who you are"),
    ],
)
def test_a_host_that_aborts_is_understood(mount, answer, status, sentence):
    page = Person(mount(lambda _: abort(answer))).get("/ops/jobs/")
    assert page.status_code == status
    assert sentence in page.text


class Odd:
    """Compares as nothing should."""

    __hash__ = object.__hash__

    def __eq__(self, _):
        raise RuntimeError("gina")


def test_rubbish_that_breaks_when_it_is_looked_at_is_rubbish(mount, caplog):
    page = Person(mount(lambda _: ("ops:gina", Odd()))).get("/ops/jobs/")
    assert page.status_code == 503
    assert "gina" not in caplog.text


def test_a_host_that_hangs_is_waited_for_and_then_told_of(mount, monkeypatch, caplog):
    monkeypatch.setattr(patience, "SECONDS", 0.05)
    hold, asked = threading.Event(), []

    def hangs(_):
        asked.append(hold.wait(30))
        return ("shop:gina", "viewer")

    gina = Person(mount(hangs))
    for _ in range(patience.MOST_LATE + 3):
        page = gina.get("/ops/")
        assert page.status_code == 503
        assert "It is not known who you are" in page.text
    assert "identify did not answer" in caplog.text
    late = [each for each in threading.enumerate() if each.name.startswith(patience.NAME)]
    assert len(late) == patience.MOST_LATE
    hold.set()
    for each in late:
        each.join(30)
    assert gina.get("/ops/").status_code == 200
    assert len(asked) == patience.MOST_LATE + 1


def test_identify_sees_the_hosts_request_and_no_form_of_the_console(mount, job_at):
    seen = []

    def identify(asked):
        seen.append((asked.path, asked.script_root, asked.method, dict(asked.form)))
        return ("shop:gina", "operator")

    gina, job = Person(mount(identify)), job_at("failed")
    answer = gina.post(f"/ops/jobs/{job}/retry", retry_form(gina, job))
    assert answer.status_code == 303
    assert seen[-1] == (f"/ops/jobs/{job}/retry", "", "POST", {})


def test_identify_writes_nothing_into_the_hosts_session(mount):
    def identify(_):
        from flask import session  # noqa: PLC0415 - as a host would

        session["seen"] = "by identify"
        return ("shop:gina", "viewer")

    gina = Person(mount(identify))
    gina.get("/enter/shop:gina/viewer")
    assert gina.get("/ops/").status_code == 200
    assert "seen" not in gina.get("/me").text


def test_an_app_factory_mounts_it_by_init_app_in_each_app(shop, scene, monkeypatch):
    monkeypatch.setenv("DATABASE_URL", shop.url)
    monkeypatch.setenv("QUEUE_SECRET_KEY", KEY)
    countersign = Countersign(url_prefix="/ops", identify=lambda _: ("shop:gina", "viewer"))
    for _ in range(2):
        app = service()
        countersign.init_app(app)
        assert Person(app).get("/ops/").status_code == 200
        assert "The shop" in Person(app).get("/").text
        close(app)


def test_two_consoles_of_one_host_do_not_share_a_session(mount, shop):
    app = mount(identify=None)
    settings = from_environment({"DATABASE_URL": shop.url, "QUEUE_SECRET_KEY": KEY})
    Countersign(app, url_prefix="/other", settings=settings)
    somebody = Person(app)
    form = forms(somebody.get("/ops/sign-in"))["/ops/sign-in"]
    somebody.post("/ops/sign-in", {**form, "code": "ops:bob", "password": PASSWORD})
    assert somebody.get("/ops/").status_code == 200
    assert somebody.get("/other/").status_code == 303


@pytest.mark.parametrize(
    "prefix", ["", "/", "ops", "/ops/", "//ops", "/a//b", "/../x", "/a b", "/ö"]
)
def test_a_prefix_that_is_none_is_refused(shop, prefix):
    with pytest.raises(ValueError, match="a prefix is a path"):
        mounted(shop.url, prefix=prefix)


@pytest.mark.parametrize("prefix", ["/jobs", "/enter", "/me"])
def test_a_prefix_that_would_hide_a_route_of_the_hosts_is_refused(shop, prefix):
    with pytest.raises(ValueError, match="would hide /"):
        mounted(shop.url, prefix=prefix)


def test_a_host_below_a_prefix_of_its_own_has_the_console_below_that(guest):
    somebody = guest()
    page = somebody.get("/ops/jobs/", environ_overrides={"SCRIPT_NAME": "/shop"})
    assert page.status_code == 200
    assert 'href="/shop/ops/jobs/' in page.text
    assert 'href="/ops/' not in page.text
    assert all("Path=/shop/ops" in cookie for cookie in page.headers.getlist("Set-Cookie"))


FORWARDED = {
    "X-Forwarded-Proto": "https",
    "X-Forwarded-Host": "shop.example",
    "X-Forwarded-For": "203.0.113.7",
    "X-Forwarded-Prefix": "/shop",
}


def test_what_the_hosts_own_proxy_fix_found_out_holds_for_the_console(mount):
    app = mount(identify=None, QUEUE_HOSTS="shop.example")
    app.wsgi_app = ProxyFix(app.wsgi_app, x_for=1, x_proto=1, x_host=1, x_prefix=1)
    page = Person(app).get("/ops/sign-in", headers=FORWARDED)
    assert "password" in forms(page)["/shop/ops/sign-in"]
    (cookie,) = page.headers.getlist("Set-Cookie")
    assert cookie.startswith("__Secure-countersign=")
    assert "Path=/shop/ops" in cookie


def test_without_it_the_console_believes_the_proxies_that_it_was_told_of(mount):
    app = mount(None, QUEUE_HOSTS="shop.example", QUEUE_PROXIES="127.0.0.1")
    page = Person(app).get("/ops/sign-in", headers=FORWARDED)
    assert "password" in forms(page)["/shop/ops/sign-in"]
    assert "The shop" in Person(app).get("/", headers=FORWARDED).text
