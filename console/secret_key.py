"""The key that cookies and tokens are signed with: given, or made once and kept in QUEUE_DATA."""

import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

from queue_core.errors import SettingsError
from queue_core.settings import Settings

FILE: Final = "secret_key"
_BYTES: Final = 48
_FEWEST_CHARACTERS: Final = 16


def secret_key(settings: Settings) -> str:
    """Return the key, the same one to all processes that share QUEUE_DATA.

    Raises SettingsError where a key is too short to guard anything, where others could read
    the file, or where none can be kept.
    """
    key = settings.secret_key or _kept(settings.data)
    if len(key) < _FEWEST_CHARACTERS:
        raise SettingsError(f"QUEUE_SECRET_KEY must be {_FEWEST_CHARACTERS} characters or more")
    return key


def _kept(folder: Path) -> str:
    path = folder / FILE
    try:
        if not path.exists():
            _make(path)
        mode = stat.S_IMODE(path.stat().st_mode)
        key = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(
            f"no secret key can be kept in {folder}: {type(error).__name__}; set QUEUE_SECRET_KEY"
        ) from None
    if mode & 0o077:
        raise SettingsError(f"others may read {path}: remove it, and a new one is made")
    return key


def _make(path: Path) -> None:
    """Make the file whole under another name first: of two processes one wins, both read that."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{FILE}.{os.getpid()}.{secrets.token_hex(4)}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(f"{secrets.token_urlsafe(_BYTES)}\n")
            file.flush()
            os.fsync(handle)
        with suppress(FileExistsError):
            os.link(draft, path)
    finally:
        draft.unlink()
