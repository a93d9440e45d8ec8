"""People at the console: they read a page's form, change a field, and send it."""

from html.parser import HTMLParser
from typing import Any
from uuid import UUID

from flask import Flask
from werkzeug.test import TestResponse

from tests.console.scenes import PASSWORD


class _Forms(HTMLParser):
    """The fields of each form on a page, by the form's address."""

    def __init__(self) -> None:
        super().__init__()
        self.forms: dict[str, dict[str, str]] = {}
        self._form: dict[str, str] = {}
        self._area = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {key: value or "" for key, value in attrs}
        if tag == "form":
            self._form = self.forms[given["action"]] = {}
        unticked = given.get("type") == "checkbox" and "checked" not in given
        if tag in {"input", "textarea"} and "name" in given and not unticked:
            self._form[given["name"]] = given.get("value", "")
            self._area = given["name"] if tag == "textarea" else ""

    def handle_data(self, data: str) -> None:
        if self._area:
            self._form[self._area] += data

    def handle_endtag(self, tag: str) -> None:
        if tag == "textarea":
            self._form[self._area] = self._form[self._area].removeprefix("\n")
            self._area = ""


def forms(page: TestResponse) -> dict[str, dict[str, str]]:
    """Return the fields of each form on a page, as a browser would send them."""
    parser = _Forms()
    parser.feed(page.text)
    return parser.forms


class Person:
    """A browser, with somebody signed in or nobody (no code)."""

    def __init__(self, app: Flask, code: str | None = None, **environ: str) -> None:
        self.client = app.test_client()
        self.client.environ_base |= environ
        if code:
            answer = self.sign_in(code)
            assert answer.status_code == 303, answer.text

    def open(self, path: str, **more: Any) -> TestResponse:
        """Send a request, and read the answer to its end."""
        return self.client.open(path, buffered=True, **more)

    def get(self, path: str, **more: Any) -> TestResponse:
        """Open an address."""
        return self.open(path, **more)

    def post(self, path: str, fields: dict[str, Any], **more: Any) -> TestResponse:
        """Send a form as it stands."""
        return self.open(path, method="POST", data=fields, **more)

    def cookie(self) -> str:
        """Return the value of the session's cookie."""
        cookie = self.client.get_cookie("countersign")
        assert cookie
        return cookie.value

    def token(self) -> str:
        """Return the token of the present session."""
        (form, *_) = forms(self.get("/sign-in", follow_redirects=True)).values()
        return form["csrf_token"]

    def sign_in(self, code: str, password: str = PASSWORD, **fields: str) -> TestResponse:
        """Send the sign-in form."""
        form = forms(self.get("/sign-in"))["/sign-in"]
        return self.post("/sign-in", {**form, "code": code, "password": password, **fields})

    def form(self, job: UUID, verb: str) -> dict[str, str]:
        """Return the form of an act, as the job's page has it."""
        return forms(self.get(f"/jobs/{job}?form={verb}"))[f"/jobs/{job}/{verb}"]

    def act(self, job: UUID, verb: str, **changed: str) -> TestResponse:
        """Open the job's page, give a reason, change these fields, and press the button."""
        fields = {**self.form(job, verb), "reason": "deploy_error", **changed}
        return self.post(f"/jobs/{job}/{verb}", fields)

    def show(self, noun: str, name: str) -> TestResponse:
        """Open the page of a queue or schedule."""
        return self.get(f"/{noun}/show", query_string={"name": name})

    def act_on(self, noun: str, name: str, verb: str, **fields: Any) -> TestResponse:
        """Open the page of a queue or schedule, fill in these fields, and press the button."""
        address = f"/{noun}/{verb.replace('_', '-')}"
        return self.post(address, {**forms(self.show(noun, name))[address], **fields})
