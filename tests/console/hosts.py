"""A Flask service of somebody's, with names of its own wherever the console has some."""

from types import MethodType
from typing import Any

from flask import Blueprint, Flask, abort, redirect, render_template, request, session
from jinja2 import DictLoader

from console import Countersign, database
from console.host import Mounted
from queue_core.settings import from_environment
from tests.console.serving import KEY

TEMPLATES = {
    "base.html": "<h1>The shop</h1>{% block main %}{% endblock %}",
    "jobs/index.html": "{% extends 'base.html' %}{% block main %}Jobs at the shop{% endblock %}",
    "errors/page.html": "The shop's own error",
}
PAGES = ("/", "/jobs/", "/opsy", "/nowhere", "/broken", "/static/console.css", "/sign-in", "/me")


def service() -> Flask:
    """Return the service; `/enter/<code>/<role>` signs somebody in to it."""
    app = Flask("shop", static_folder=None)
    app.secret_key = "the host's own key, which is long"
    app.jinja_env.loader = DictLoader(TEMPLATES)
    jobs = Blueprint("jobs", __name__)
    jobs.add_url_rule("/jobs/", "index", lambda: render_template("jobs/index.html"))
    app.register_blueprint(jobs)
    app.add_url_rule("/", "home", lambda: render_template("base.html"))
    app.add_url_rule("/opsy", "opsy", lambda: "beside the prefix")
    app.add_url_rule("/broken", "broken", lambda: str(1 / 0))
    app.add_url_rule("/me", "me", lambda: str(dict(session)))
    app.add_url_rule("/sign-in", "sign_in", lambda: redirect("/me"))
    app.add_url_rule("/echo", "echo", lambda: request.form["reason"], methods=["POST"])
    app.add_url_rule("/enter/<code>/<role>", "enter", _enter)
    app.register_error_handler(404, lambda _: (render_template("errors/page.html"), 404))
    app.register_error_handler(500, lambda _: (render_template("errors/page.html"), 500))
    app.before_request(_closed)
    app.after_request(_marked)
    return app


def who_is_there(asked: Any) -> Any:
    """Say whom the service has signed in, as its own views would find out."""
    assert asked.path == request.path
    return session.get("user")


def mounted(url: str, identify: Any = who_is_there, prefix: str = "/ops", **given: str) -> Flask:
    """Return the service with the console in it."""
    app = service()
    settings = from_environment({"DATABASE_URL": url, "QUEUE_SECRET_KEY": KEY, **given})
    Countersign(app, url_prefix=prefix, identify=identify, settings=settings)
    return app


def close(app: Flask) -> None:
    """Close the connections of every console in a service; it may have been wrapped since."""
    inside: Any = app.wsgi_app
    while not isinstance(inside, MethodType):
        if isinstance(inside, Mounted):
            console: Any = inside._console
            database.connections(console).close()
            inside = inside._host
        else:
            inside = inside.app
    assert inside.__self__ is app


def _enter(code: str, role: str) -> str:
    session["user"] = (code, role)
    return "welcome"


def _closed() -> None:
    if "closed" in request.args:
        abort(402)


def _marked(response: Any) -> Any:
    response.headers["X-Shop"] = "yes"
    return response
