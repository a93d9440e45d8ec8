"""Proxies in front of the console: whose word is taken, and for what."""

import re
from collections.abc import Sequence
from ipaddress import IPv4Network, IPv6Network, ip_address
from typing import TYPE_CHECKING, Final

from flask import request
from werkzeug.middleware.proxy_fix import ProxyFix

if TYPE_CHECKING:
    from collections.abc import Iterable

    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

PATH: Final = re.compile(r"(?:/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)+")
"""A prefix: segments that need no encoding, nothing that climbs, no slash at the end."""
_PROXIED: Final = "countersign.proxied"
_DONE_BY_HOST: Final = "werkzeug.proxy_fix.orig"
_SAID: Final = tuple(f"HTTP_X_FORWARDED_{name}" for name in ("FOR", "PROTO", "HOST", "PREFIX"))


class Proxies:
    """Takes the word of configured addresses for who asks, by which scheme, name and prefix.

    Of each header the last value counts: the one that the proxy itself wrote. From any other
    address the headers mean nothing.
    """

    def __init__(
        self, app: "WSGIApplication", networks: Sequence[IPv4Network | IPv6Network]
    ) -> None:
        self._app = app
        self._networks = networks
        self._told = ProxyFix(app, x_for=1, x_proto=1, x_host=1)

    def __call__(
        self, environ: "WSGIEnvironment", start_response: "StartResponse"
    ) -> "Iterable[bytes]":
        """Answer the request as the proxy was asked it."""
        if not any(name in environ for name in _SAID):
            return self._app(environ, start_response)
        if _DONE_BY_HOST in environ:  # mounted: the host service took somebody's word already
            environ[_PROXIED] = True
        elif self._believes(environ.get("REMOTE_ADDR", "")):
            return self._told(_as_asked(environ), start_response)
        return self._app(environ, start_response)

    def _believes(self, address: str) -> bool:
        try:
            asking = ip_address(address)
        except ValueError:
            return False
        mapped = getattr(asking, "ipv4_mapped", None)
        return any((mapped or asking) in network for network in self._networks)


def is_proxied() -> bool:
    """Say whether the request came through a proxy whose word was taken."""
    return bool(request.environ.get(_PROXIED))


def _as_asked(environ: "WSGIEnvironment") -> "WSGIEnvironment":
    """Put the prefix in front, and drop a scheme that is none."""
    environ[_PROXIED] = True
    prefix = environ.get("HTTP_X_FORWARDED_PREFIX", "").strip().rstrip("/")
    if PATH.fullmatch(prefix):
        environ["SCRIPT_NAME"] = prefix + environ.get("SCRIPT_NAME", "")
    scheme = environ.get("HTTP_X_FORWARDED_PROTO", "").rpartition(",")[2].strip().lower()
    environ["HTTP_X_FORWARDED_PROTO"] = scheme if scheme in {"http", "https"} else ""
    return environ
