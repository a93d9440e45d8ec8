"""The settings, read once from the environment."""

import ipaddress
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from queue_core.errors import SettingsError

DEFAULT_STALE_SECONDS: Final = 60.0
SHORTEST_STALE_SECONDS: Final = 1.0
LONGEST_STALE_SECONDS: Final = 86_400.0
DEFAULT_KEEP_DAYS: Final = 7
DEFAULT_KEEP_FAILED_DAYS: Final = 30
MOST_KEEP_DAYS: Final = 36_500


@dataclass(frozen=True, slots=True)
class Settings:
    """What a process of Countersign was told; secrets are left out of its `repr`.

    `database_url` is None where the embedded Postgres in `data` is to be used.
    `stale_after` is in seconds; completed and cancelled jobs are kept for `keep_days` after
    their end, failed ones for `keep_failed_days`. Without `notify` workers poll alone.
    """

    database_url: str | None = field(repr=False)
    owner_url: str | None = field(repr=False)
    data: Path
    secret_key: str | None = field(repr=False)
    hosts: tuple[str, ...]
    proxies: tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]
    instance: str
    stale_after: float
    keep_days: int
    keep_failed_days: int
    notify: bool
    log: Literal["text", "json"]


def from_environment(environ: Mapping[str, str] | None = None) -> Settings:
    """Read the settings from `environ` (default: the process's), refusing what cannot be used.

    Raises SettingsError, naming the setting and never a secret's value.
    """
    environ = os.environ if environ is None else environ
    url, owner_url = _urls(environ)
    return Settings(
        database_url=url,
        owner_url=owner_url,
        data=data_folder(environ),
        secret_key=environ.get("QUEUE_SECRET_KEY") or None,
        hosts=tuple(
            host.strip().lower()
            for host in environ.get("QUEUE_HOSTS", "").split(",")
            if host.strip()
        ),
        proxies=_proxies(environ),
        instance=environ.get("QUEUE_INSTANCE", "").strip()[:60],
        stale_after=_stale_after(environ),
        keep_days=_days(environ, "QUEUE_KEEP_DAYS", DEFAULT_KEEP_DAYS),
        keep_failed_days=_days(environ, "QUEUE_KEEP_FAILED_DAYS", DEFAULT_KEEP_FAILED_DAYS),
        notify=_notify(environ),
        log=_log(environ),
    )


def data_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder of the embedded Postgres and the secret key: `QUEUE_DATA`.

    Unset, it is /var/lib/countersign for root, since a server that dropped root's
    rights cannot reach root's home, and the user's own data folder for anyone else.
    """
    chosen = environ.get("QUEUE_DATA", "").strip()
    if chosen:
        return folder(chosen)
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        return Path("/var/lib/countersign")
    base = environ.get("XDG_DATA_HOME", "")
    return folder(base if base.startswith("/") else "~/.local/share") / "countersign"


def folder(text: str) -> Path:
    """Return a folder as an absolute path, `~` being the user's home.

    Raises SettingsError where nobody knows that home: some containers' users have none.
    """
    try:
        return Path(text).expanduser().absolute()
    except RuntimeError:
        message = "nobody knows the home folder that ~ stands for: give QUEUE_DATA from / on"
        raise SettingsError(message) from None


def _urls(environ: Mapping[str, str]) -> tuple[str | None, str | None]:
    """Return where the queue is for services, and for its owner: one database, two roles."""
    url = environ.get("DATABASE_URL", "").strip() or None
    owner_url = environ.get("QUEUE_OWNER_URL", "").strip() or None
    if owner_url and not url:
        message = "QUEUE_OWNER_URL is the owner's way to DATABASE_URL: set that one too"
        raise SettingsError(message)
    return url, owner_url or url


def _proxies(
    environ: Mapping[str, str],
) -> tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]:
    given = [text.strip() for text in environ.get("QUEUE_PROXIES", "").split(",")]
    try:
        return tuple(ipaddress.ip_network(text) for text in given if text)
    except ValueError:
        message = (
            "QUEUE_PROXIES must be addresses or networks with commas between, such as "
            "127.0.0.1, 10.0.4.0/24"
        )
        raise SettingsError(message) from None


def _stale_after(environ: Mapping[str, str]) -> float:
    text = environ.get("QUEUE_STALE_AFTER", "").strip() or str(DEFAULT_STALE_SECONDS)
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not SHORTEST_STALE_SECONDS <= seconds <= LONGEST_STALE_SECONDS:
        message = "QUEUE_STALE_AFTER must be a number of seconds from 1 to 86400"
        raise SettingsError(message)
    return seconds


def _days(environ: Mapping[str, str], name: str, default: int) -> int:
    text = environ.get(name, "").strip() or str(default)
    days = int(text) if text.isascii() and text.isdigit() and len(text) < 6 else 0  # noqa: PLR2004
    if not 1 <= days <= MOST_KEEP_DAYS:
        message = f"{name} must be a whole number of days from 1 to {MOST_KEEP_DAYS}"
        raise SettingsError(message)
    return days


def _notify(environ: Mapping[str, str]) -> bool:
    match environ.get("QUEUE_NOTIFY", "").strip().lower():
        case "" | "on":
            return True
        case "off":
            return False
        case _:
            message = "QUEUE_NOTIFY must be on or off"
            raise SettingsError(message)


def _log(environ: Mapping[str, str]) -> Literal["text", "json"]:
    match environ.get("QUEUE_LOG", "").strip().lower():
        case "" | "text":
            return "text"
        case "json":
            return "json"
        case _:
            message = "QUEUE_LOG must be text or json"
            raise SettingsError(message)
