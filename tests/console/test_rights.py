"""One table says who may do what, for the server and for the pages alike."""

import pytest

from console import rights
from queue_core.operators import ROLES
from tests.console.scenes import CODES, TRACEBACK

CODE_OF = {role: code for code, role in CODES.items() if code != "ops:bob"}
ACTS = [
    route for route in rights.TABLE if route.rpartition(".")[2] in {"cancel", "retry", "release"}
]


def addresses(app, scene):
    """Every route that needs a sign-in, with its method and an address that is there."""
    for rule in app.url_map.iter_rules():
        if rights.TABLE[rule.endpoint] != rights.ANYBODY:
            path = rule.rule.replace("<uuid:job_id>", str(scene.completed))
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


def test_who_is_not_signed_in_gets_to_no_page(app, scene, person):
    nobody = person()
    for endpoint, method, path in addresses(app, scene):
        answer = nobody.open(path, method=method)
        assert answer.status_code == (303 if method == "GET" else 401), endpoint
        assert "Sign in" in nobody.get("/sign-in").text


@pytest.mark.parametrize("role", ROLES)
def test_each_role_gets_what_the_table_says_and_no_more(app, scene, person, role):
    somebody = person(CODE_OF[role])
    token = somebody.token()
    for endpoint, method, path in addresses(app, scene):
        if endpoint == "sign_in.leave":
            continue
        answer = somebody.open(
            path, method=method, data={"csrf_token": token} if method == "POST" else None
        )
        allowed = ROLES.index(role) >= ROLES.index(rights.TABLE[endpoint])
        assert (answer.status_code != 403) == allowed, endpoint


@pytest.mark.parametrize(
    ("verb", "place"), [("cancel", "ready"), ("retry", "failed"), ("release", "needs_review")]
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
    ("verb", "place"),
    [("cancel", "ready"), ("cancel", "running"), ("retry", "failed"), ("release", "needs_review")],
)
def test_an_operator_is_offered_just_the_act_that_the_state_allows(alice, job_at, verb, place):
    page = alice.get(f"/jobs/{job_at(place)}").text
    assert [each for each in ("cancel", "retry", "release") if f'/{each}"' in page] == [verb]


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
