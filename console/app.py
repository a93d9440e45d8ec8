"""The console put together: its app, and the same mounted in a host's service."""

from pathlib import Path
from typing import Any

from flask import Flask, Request
from jinja2 import StrictUndefined
from werkzeug.exceptions import HTTPException
from werkzeug.routing import MapAdapter

from console import (
    database,
    formats,
    frame,
    interrupted,
    keeping,
    refusals,
    rights,
    rows,
    secret_key,
    security,
    sessions,
    timeline,
)
from console.host import Identify, mount
from console.proxies import Proxies
from console.views import (
    account,
    chosen,
    handlers,
    health,
    jobs,
    ledger,
    marks,
    operators,
    overview,
    queues,
    review,
    schedules,
    sign_in,
    workers,
)
from queue_core.settings import Settings, from_environment

NOUNS = (
    health,
    overview,
    jobs,
    chosen,
    marks,
    review,
    workers,
    queues,
    schedules,
    handlers,
    ledger,
    operators,
    account,
    sign_in,
)


class Console(Flask):
    """A Flask app whose log never repeats a value, a reason, or who acted."""

    def log_exception(self, exc_info: Any) -> None:  # noqa: ANN401 - Flask's interface
        """Log what broke and where."""
        refusals.log_safely(exc_info[1])

    def create_url_adapter(self, request: Request | None) -> MapAdapter | None:
        """Return what makes addresses; under a Host that is none, the page saying so has some."""
        try:
            return super().create_url_adapter(request)
        except HTTPException:
            return self.url_map.bind("localhost")


def create_app(settings: Settings | None = None) -> Flask:
    """Return the console as a WSGI app; connections are opened by its first request.

    Raises SettingsError, and LookupError where a route has no entry in the table of rights.
    """
    settings = settings or from_environment()
    app = Console("console", template_folder=_folder("templates"), static_folder=_folder("static"))
    app.secret_key = secret_key.secret_key(settings)
    app.jinja_env.undefined = StrictUndefined
    app.jinja_env.trim_blocks = app.jinja_env.lstrip_blocks = True
    database.init_app(app, settings)
    security.init_app(app, settings)
    sessions.init_app(app)
    formats.init_app(app)
    frame.init_app(app, settings.instance)
    rows.init_app(app)
    app.add_template_filter(timeline.said)
    app.add_template_filter(timeline.tone)
    app.add_template_filter(keeping.until(settings), "kept_until")
    refusals.init_app(app)
    interrupted.init_app(app)
    for rule in (security.check_host, security.check_origin, security.check_body):
        app.before_request(rule)
    for rule in (sessions.resume, rights.check, security.check_token):
        app.before_request(rule)
    for noun in NOUNS:
        app.register_blueprint(noun.pages)
    rights.require_complete(app)
    app.wsgi_app = Proxies(app.wsgi_app, settings.proxies)
    return app


class Countersign:
    """The console mounted in a host's Flask service, whole, under a prefix of its own.

    `identify(request)` is called in a request context of the host's, for each page, and returns
    the operator code and role of who is there, or None for nobody; without it the console has
    its own sign-in. Of the host nothing changes: the console shares no route, template, cookie
    or error handler with it.

        Countersign(app, url_prefix="/ops", identify=who_is_there)
    """

    def __init__(
        self,
        app: Flask | None = None,
        *,
        url_prefix: str = "/ops",
        identify: Identify | None = None,
        settings: Settings | None = None,
    ) -> None:
        self._prefix = url_prefix
        self._identify = identify
        self._settings = settings
        if app is not None:
            self.init_app(app)

    def init_app(self, app: Flask) -> None:
        """Mount a console in `app`; once its own routes are there, and before any ProxyFix.

        Raises SettingsError, and ValueError for a prefix that is none, or that would hide a
        route of the host's.
        """
        mount(create_app(self._settings), app, self._prefix, self._identify)


def _folder(name: str) -> str:
    """In the wheel the files lie inside this package, in a checkout beside it."""
    here = Path(__file__).resolve().parent
    packaged = here / name
    return str(packaged if packaged.is_dir() else here.parent / name)
