"""One table says who may do what, for the server and for the pages alike."""

import re
from collections import Counter
from html import unescape
from typing import get_args
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

import pytest

from console import rights
from queue_core.queries.operators import ROLES
from queue_core.sessions import Session
from queue_core.states import ACT_VERBS, ACTS, OperatorAct
from tests.console.addresses import filled
from tests.console.scenes import CODES, TRACEBACK

CODE_OF = {role: code for code, role in CODES.items() if code != "ops:bob"}
ENDS_SESSIONS = {"sign_in.leave", "account.end_other_sessions"}
"""Pressed with the right token, those of other tests would be over too."""


def addresses(app, scene):
    """Every route that needs a sign-in, with its method and an address that is there."""
    for rule in app.url_map.iter_rules():
        if rights.TABLE[rule.endpoint] != rights.ANYBODY:
            path = filled(rule, scene, job_id=str(scene.completed))
            yield rule.endpoint, "POST" if "POST" in rule.methods else "GET", path


def test_every_route_has_its_entry_and_every_entry_its_route(app):
    routes = {rule.endpoint for rule in app.url_map.iter_rules()}
    assert routes == set(rights.TABLE) - {rights.SEE_ERRORS}


def test_a_route_without_an_entry_keeps_the_console_from_starting(app_on, shop):
    app = app_on(shop.url)
    app.add_url_rule("/back-door", "back_door", lambda: "open")
    with pytest.raises(LookupError, match="back_door"):
        rights.require_complete(app)


def test_a_route_without_an_entry_is_closed_to_everybody(app_on, shop, scene):
    app = app_on(shop.url)
    app.add_url_rule("/back-door", "back_door", lambda: "open")
    assert app.test_client().get("/back-door").status_code == 303


def test_case_89_who_is_not_signed_in_gets_to_no_page(app, scene, person):
    nobody = person()
    for endpoint, method, path in addresses(app, scene):
        answer = nobody.open(path, method=method)
        assert answer.status_code == (303 if method == "GET" else 401), endpoint
        assert "Sign in" in nobody.get("/sign-in").text


def test_every_form_says_which_acts_it_signs_or_that_it_signs_none(app, app_on, shop):
    posted = {rule.endpoint for rule in app.url_map.iter_rules() if "POST" in rule.methods}
    assert posted == {*rights.SIGNS, *rights.SIGNS_NOTHING}
    other = app_on(shop.url)
    unsigned = other.view_functions["overview.show"]
    other.add_url_rule("/act", "overview.show", unsigned, methods=["POST"])
    with pytest.raises(LookupError, match=r"overview\.show"):
        rights.require_complete(other)


def test_every_act_has_a_page_that_offers_it_to_some_role(app):
    told = {act: rights.least(act) for act in ACTS}
    assert {act for act, role in told.items() if role is None} <= {"enqueued"}
    assert {act for act, role in told.items() if role == "admin"} == set(get_args(OperatorAct))
    assert "viewer" not in told.values()


NEWEST = "SELECT COALESCE(max(acts.id), 0) AS id FROM countersign.acts"


@pytest.mark.no_cover  # what is walked through here has tests of its own
@pytest.mark.parametrize("role", ROLES)
def test_each_role_gets_what_the_table_says_and_no_more(app, scene, person, books, role):
    somebody = person(CODE_OF[role])
    token = somebody.token()
    before = books.execute(NEWEST).fetchone()
    for rule in app.url_map.iter_rules():
        least = rights.TABLE[rule.endpoint]
        if rule.endpoint in ENDS_SESSIONS | {"sign_in.enter"}:
            continue
        allowed = least == rights.ANYBODY or ROLES.index(role) >= ROLES.index(least)
        path = filled(rule, scene, job_id=str(scene.completed))
        for method in sorted(rule.methods):
            answer = somebody.open(
                path, method=method, data={"csrf_token": token} if method == "POST" else None
            )
            assert (answer.status_code != 403) == allowed, (rule.endpoint, method)
    assert books.execute(NEWEST).fetchone() == before


FORM = re.compile(r'<form[^>]*method="post"[^>]*action="([^"]+)"')
LINK = re.compile(r'<a[^>]*href="(/[^"]*)')
OFTEN = 2
"""Pages of one kind that are opened: with the same route, and as many filters in the address."""


@pytest.mark.no_cover  # what is walked through here has tests of its own
@pytest.mark.parametrize("role", ROLES)
def test_no_page_offers_a_link_or_a_button_that_the_server_refuses(app, person, role):
    somebody, adapter = person(CODE_OF[role]), app.url_map.bind("localhost")
    waiting, opened, offered = ["/"], Counter(), set()
    while waiting:
        path = urlsplit(waiting.pop())
        endpoint, _ = adapter.match(path.path, method="GET")
        assert rights.may(Session(uuid4(), "", role), endpoint), path
        kind = endpoint, len(parse_qs(path.query))
        opened[kind] += 1
        if opened[kind] > OFTEN or endpoint in {"static", "ledger.export"}:
            continue
        page = somebody.get(path._replace(fragment="").geturl())
        assert page.status_code == 200, path
        waiting += [unescape(link) for link in LINK.findall(page.text)]
        offered |= {adapter.match(form, method="POST")[0] for form in FORM.findall(page.text)}
    assert len(opened) > len(rights.TABLE) // 3
    refused = [route for route in offered if not rights.may(Session(uuid4(), "", role), route)]
    assert refused == []


@pytest.mark.parametrize(
    ("verb", "place"),
    [
        ("cancel", "ready"),
        ("retry", "failed"),
        ("release", "needs_review"),
        ("confirm", "needs_review"),
        ("close", "needs_review"),
    ],
)
def test_a_viewer_is_neither_offered_an_act_nor_allowed_it(
    viola, alice, job_at, stands, verb, place
):
    job = job_at(place)
    assert f"/jobs/{job}/{verb}" not in viola.get(f"/jobs/{job}").text
    form = {**alice.form(job, verb), "operator_code": "ops:viola", "reason": "deploy_error"}
    answer = viola.post(f"/jobs/{job}/{verb}", {**form, "csrf_token": viola.token()})
    assert answer.status_code == 403
    assert stands(job) == (place, [])


@pytest.mark.parametrize(
    ("verbs", "place"),
    [
        (["cancel"], "ready"),
        (["cancel"], "running"),
        (["retry"], "failed"),
        (["release", "confirm", "close"], "needs_review"),
    ],
)
def test_an_operator_is_offered_just_the_acts_that_the_state_allows(alice, job_at, verbs, place):
    page = alice.get(f"/jobs/{job_at(place)}").text
    assert [each for each in ACT_VERBS if f'/{each}"' in page] == verbs


def test_a_viewer_sees_that_it_failed_but_not_what_the_error_says(viola, alice, scene):
    page, list_page = (
        viola.get(f"/jobs/{scene.told}").text,
        viola.get("/jobs/?state=failed&queue=mail").text,
    )
    assert "Attempt 3 passed its time limit" in page
    for text in (
        "ProviderError",
        "502 Bad Gateway",
        "shop.payments",
        "timed out after",
        "Traceback",
    ):
        assert text not in page
    assert "ConnectionRefusedError" not in list_page
    assert TRACEBACK.splitlines()[-1] in alice.get(f"/jobs/{scene.told}").text
    assert "ConnectionRefusedError" in alice.get("/jobs/?state=failed&queue=mail").text


@pytest.mark.parametrize("name", ["error_type", "error_place", "not_error_type", "not_error_place"])
def test_a_viewer_cannot_look_for_errors(viola, alice, name):
    path = f"/jobs/?state=failed&{name}=ProviderError"
    answer = viola.get(path)
    assert answer.status_code == 403
    assert "Your role sees no errors" in answer.text
    assert alice.get(path).status_code == 200
    assert 'name="error_type"' in alice.get("/jobs/").text
    assert "error_type" not in viola.get("/jobs/").text
