"""Rules for every request and answer: Host, origin, token, headers, and where `next` leads."""

import ipaddress
import unicodedata
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final
from urllib.parse import quote, urlsplit

from flask import Flask, Response, abort, current_app, request
from flask_wtf.csrf import CSRFProtect

from console.proxies import is_proxied
from queue_core.settings import Settings

MOST_BODY_BYTES: Final = 256 * 1024
MOST_NEXT_CHARACTERS: Final = 2_000
SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
OWN_SITE: Final = frozenset({"same-origin", "none"})
"""`none`: the person began it, by a reload or from the history."""
HEADERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
        "img-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    }
)
TWO_YEARS: Final = "max-age=63072000"
_KEPT_IN_PATHS: Final = "/:@!$&'()*+,;=-._~"

csrf: Final = CSRFProtect()


def init_app(app: Flask, settings: Settings) -> None:
    """Set the limits of a request and what a token is good for."""
    app.config.update(
        MAX_CONTENT_LENGTH=MOST_BODY_BYTES,
        MAX_FORM_MEMORY_SIZE=MOST_BODY_BYTES,
        MAX_FORM_PARTS=100,
        PROVIDE_AUTOMATIC_OPTIONS=False,
        WTF_CSRF_CHECK_DEFAULT=False,  # asked for below, in its place among the other rules
        WTF_CSRF_TIME_LIMIT=None,  # a form lives as long as its session
        WTF_CSRF_SSL_STRICT=False,  # looks at the Referer, which our pages do not send
        COUNTERSIGN_HOSTS=frozenset(settings.hosts),
    )
    csrf.init_app(app)
    app.after_request(add_headers)


def check_host() -> None:
    """Answer 400 unless the request is for a name of this machine or one of QUEUE_HOSTS.

    Otherwise a page elsewhere could have its own name point here, and read what is shown.
    """
    if not (is_local() or host_name() in current_app.config["COUNTERSIGN_HOSTS"]):
        abort(400, "This console does not answer to that host name; QUEUE_HOSTS lists more.")


def check_origin() -> None:
    """Answer 403 to a form that another site sent."""
    if request.method in SAFE_METHODS:
        return
    site = request.headers.get("Sec-Fetch-Site")
    origin = request.headers.get("Origin")
    own = f"{request.scheme}://{request.headers.get('Host', '')}".lower()
    sent_here = site in OWN_SITE if site is not None else origin in (None, own)
    if not sent_here:
        abort(403, "This form was sent from another site. Nothing was done.")


def check_body() -> None:
    """Answer 413 to a body that is larger than any form, before anything else looks at it."""
    if request.method not in SAFE_METHODS:
        _ = request.form


def check_token() -> None:
    """Raise CSRFError, and so answer 400, for a form without the token of its session."""
    if request.endpoint is not None:
        csrf.protect()


def add_headers(response: Response) -> Response:
    """Add the headers of every answer; only the static files may be kept by anybody."""
    response.headers.update(HEADERS)
    if request.is_secure and not request.root_path:  # else the name is other services', too
        response.headers["Strict-Transport-Security"] = TWO_YEARS
    if request.endpoint != "static":
        response.headers["Cache-Control"] = "no-store"
    return response


def host_name() -> str:
    """Return the name that the request was sent to, without its port, in lower case."""
    host = request.headers.get("Host", "").lower()
    name, _, _ = host.rpartition(":") if _has_port(host) else (host, "", "")
    return name.removesuffix(".")


def is_loopback(name: str) -> bool:
    """Say whether a host name is one that only leads to the machine it is used on."""
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name.removeprefix("[").removesuffix("]")).is_loopback
    except ValueError:
        return False


def is_local() -> bool:
    """Say whether the request was made on this machine, by one of its own names.

    A proxy's word for such a name is none: whoever asked it may be anywhere.
    """
    return is_loopback(host_name()) and not is_proxied()


def is_private() -> bool:
    """Say whether a password may be typed here: nobody on the way can read along."""
    return request.is_secure or is_local()


def safe_next(address: str | None) -> str | None:
    """Return `address` where it is a path on this host, else None."""
    if not address or len(address) > MOST_NEXT_CHARACTERS or not _is_path(address):
        return None
    return address


def here() -> str:
    """Return the request's own path with its query, percent-encoded whatever was sent."""
    path = quote(request.root_path + request.path, safe=_KEPT_IN_PATHS)
    query = quote(request.query_string, safe=_KEPT_IN_PATHS + "%?")
    return f"{path}?{query}" if query else path


def _has_port(host: str) -> bool:
    return ":" in host and host.rsplit(":", 1)[1].isdecimal()


def _is_path(address: str) -> bool:
    if not address.startswith("/") or address.startswith("//") or "\\" in address:
        return False
    if any(unicodedata.category(character)[0] in "CZ" for character in address):
        return False
    try:
        parts = urlsplit(address)
    except ValueError:
        return False
    return not parts.scheme and not parts.netloc
