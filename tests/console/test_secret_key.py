"""The key that cookies are signed with is given, or made once for all processes."""

import threading
from dataclasses import replace

import pytest

from console.secret_key import secret_key
from queue_core.errors import SettingsError
from queue_core.settings import from_environment


@pytest.fixture
def settings(tmp_path):
    return from_environment({"QUEUE_DATA": str(tmp_path / "data")})


def test_a_key_that_is_given_is_used_and_none_is_kept(settings):
    assert secret_key(replace(settings, secret_key="k" * 32)) == "k" * 32
    assert not settings.data.exists()


def test_a_key_that_is_too_short_is_refused_without_being_repeated(settings):
    with pytest.raises(SettingsError) as refused:
        secret_key(replace(settings, secret_key="hunter2hunter2"))
    assert "hunter2" not in str(refused.value)


def test_a_key_is_made_once_and_only_its_owner_may_read_it(settings):
    first = secret_key(settings)
    (kept,) = settings.data.iterdir()
    assert (kept.stat().st_mode & 0o777, len(first) >= 32) == (0o600, True)
    assert secret_key(settings) == first


def test_processes_that_start_together_agree_on_one_key(settings):
    keys, gate = [], threading.Barrier(8)

    def start():
        gate.wait()
        keys.append(secret_key(settings))

    threads = [threading.Thread(target=start) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(keys)) == 1
    assert len(keys) == 8
    assert [kept.name for kept in settings.data.iterdir()] == ["secret_key"]


def test_a_key_that_others_could_read_is_not_used(settings):
    secret_key(settings)
    (settings.data / "secret_key").chmod(0o640)
    with pytest.raises(SettingsError, match="others may read"):
        secret_key(settings)


def test_a_folder_that_cannot_keep_a_key_is_said(settings):
    settings.data.write_text("a file in its place")
    with pytest.raises(SettingsError, match="set QUEUE_SECRET_KEY"):
        secret_key(settings)


@pytest.mark.parametrize("content", [b"", b"\xff\xfe" * 40])
def test_a_file_without_a_key_in_it_is_not_used(settings, content):
    secret_key(settings)
    (settings.data / "secret_key").write_bytes(content)
    with pytest.raises(SettingsError):
        secret_key(settings)
