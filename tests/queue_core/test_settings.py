"""Settings: read once, refused by name, and no secret shown."""

import os
from pathlib import Path

import pytest

from queue_core.errors import SettingsError
from queue_core.settings import data_folder, from_environment


def test_unset_settings_have_their_defaults() -> None:
    found = from_environment({"HOME": "/home/alice"})
    assert (found.database_url, found.owner_url, found.secret_key) == (None, None, None)
    assert (found.hosts, found.instance, found.stale_after, found.log) == ((), "", 60.0, "text")


def test_the_processs_own_environment_is_the_default(monkeypatch) -> None:
    monkeypatch.setenv("QUEUE_STALE_AFTER", "5")
    assert from_environment().stale_after == 5


def test_the_owners_url_is_the_services_unless_it_is_given() -> None:
    service = {"DATABASE_URL": "postgresql://service@db/app"}
    assert from_environment(service).owner_url == "postgresql://service@db/app"
    both = service | {"QUEUE_OWNER_URL": "postgresql://owner@db/app"}
    found = from_environment(both)
    assert (found.database_url, found.owner_url) == (
        service["DATABASE_URL"],
        both["QUEUE_OWNER_URL"],
    )


def test_an_owners_url_without_the_services_is_refused() -> None:
    # Migrations would go to one database and everything else to the embedded one.
    with pytest.raises(SettingsError, match="QUEUE_OWNER_URL") as refused:
        from_environment({"QUEUE_OWNER_URL": "postgresql://o:hunter2@db/app"})
    assert "hunter2" not in str(refused.value)


def test_a_line_end_after_a_url_is_none_of_it() -> None:
    urls = {
        "DATABASE_URL": "postgresql://s@db/app\n",
        "QUEUE_OWNER_URL": " postgresql://o@db/app\n",
    }
    found = from_environment(urls)
    assert (found.database_url, found.owner_url) == (
        "postgresql://s@db/app",
        "postgresql://o@db/app",
    )
    assert from_environment({"DATABASE_URL": " \n"}).database_url is None


def test_an_empty_setting_is_an_unset_one() -> None:
    names = (
        "DATABASE_URL",
        "QUEUE_OWNER_URL",
        "QUEUE_SECRET_KEY",
        "QUEUE_STALE_AFTER",
        "QUEUE_LOG",
    )
    empty: dict[str, str] = dict.fromkeys(
        (*names, "QUEUE_HOSTS", "QUEUE_DATA", "QUEUE_INSTANCE"), ""
    )
    assert from_environment(empty) == from_environment({})


def test_proxies_are_addresses_and_networks() -> None:
    found = from_environment({"QUEUE_PROXIES": " 127.0.0.1, 10.0.4.0/24,,fd00::/8 "})
    assert list(map(str, found.proxies)) == ["127.0.0.1/32", "10.0.4.0/24", "fd00::/8"]
    assert from_environment({}).proxies == ()


@pytest.mark.parametrize(
    "text", ["*", "proxy.internal", "10.0.4.1/24", "1.2.3", "10.0.0.0/33", "::1 ::2"]
)
def test_a_proxy_is_no_name_and_no_wildcard(text: str) -> None:
    with pytest.raises(SettingsError, match="QUEUE_PROXIES must be addresses or networks"):
        from_environment({"QUEUE_PROXIES": text})


def test_hosts_are_a_list_in_lower_case() -> None:
    found = from_environment({"QUEUE_HOSTS": " Queue.Example , ,b.example:8000"})
    assert found.hosts == ("queue.example", "b.example:8000")


def test_an_instance_is_named_short() -> None:
    assert from_environment({"QUEUE_INSTANCE": f" {'x' * 99} "}).instance == "x" * 60


@pytest.mark.parametrize("text", ["1", "86400", "2.5", " 60 ", "1e2"])
def test_the_stale_time_is_a_number_of_seconds(text: str) -> None:
    assert from_environment({"QUEUE_STALE_AFTER": text}).stale_after == float(text)


@pytest.mark.parametrize(
    "text", ["0", "0.99", "-60", "86401", "nan", "inf", "-inf", "1e400", "60s", "\0", "٦٠x"]
)
def test_a_stale_time_that_cannot_be_used_is_refused_by_name(text: str) -> None:
    with pytest.raises(SettingsError, match="QUEUE_STALE_AFTER must be a number of seconds"):
        from_environment({"QUEUE_STALE_AFTER": text})


def test_logs_are_text_or_json() -> None:
    assert from_environment({"QUEUE_LOG": " JSON "}).log == "json"
    with pytest.raises(SettingsError, match="QUEUE_LOG must be text or json"):
        from_environment({"QUEUE_LOG": "xml"})


def test_secrets_are_left_out_of_what_is_shown() -> None:
    found = from_environment(
        {
            "DATABASE_URL": "postgresql://a:hunter2@db/app",
            "QUEUE_OWNER_URL": "postgresql://o:hunter2@db/app",
            "QUEUE_SECRET_KEY": "hunter2",
        }
    )
    assert "hunter2" not in f"{found} {found!r}"


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="no user ids here")
def test_the_data_folder_is_one_that_the_server_can_reach(monkeypatch) -> None:
    assert data_folder({"QUEUE_DATA": "/srv/queue"}) == Path("/srv/queue")
    assert data_folder({"QUEUE_DATA": "queue"}) == Path.cwd() / "queue"
    monkeypatch.setenv("HOME", "/home/alice")
    assert data_folder({"QUEUE_DATA": "~/queue"}) == Path("/home/alice/queue")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert data_folder({}) == Path("/var/lib/countersign")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert data_folder({}) == Path("/home/alice/.local/share/countersign")
    assert data_folder({"XDG_DATA_HOME": "/data"}) == Path("/data/countersign")
    assert data_folder({"XDG_DATA_HOME": "data"}) == Path("/home/alice/.local/share/countersign")


@pytest.mark.parametrize("environ", [{"QUEUE_DATA": "~nobody-of-that-name/queue"}, {}])
def test_a_home_that_nobody_knows_is_a_setting_that_cannot_be_used(monkeypatch, environ) -> None:
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(os, "getuid", lambda: 4_000_000_001)
    with pytest.raises(SettingsError, match="QUEUE_DATA"):
        data_folder(environ)


def test_days_to_keep_are_whole_and_at_least_one() -> None:
    found = from_environment({})
    assert (found.keep_days, found.keep_failed_days) == (7, 30)
    chosen = from_environment({"QUEUE_KEEP_DAYS": " 1 ", "QUEUE_KEEP_FAILED_DAYS": "36500"})
    assert (chosen.keep_days, chosen.keep_failed_days) == (1, 36_500)
    for name in ("QUEUE_KEEP_DAYS", "QUEUE_KEEP_FAILED_DAYS"):
        for wrong in ("0", "-1", "7.5", "a week", "36501", "999999999", "٧"):
            with pytest.raises(SettingsError, match=f"{name} must be a whole number of days"):
                from_environment({name: wrong})


def test_who_is_not_to_be_woken_says_so() -> None:
    assert from_environment({}).notify
    assert from_environment({"QUEUE_NOTIFY": " On "}).notify
    assert not from_environment({"QUEUE_NOTIFY": "off"}).notify
    with pytest.raises(SettingsError, match="QUEUE_NOTIFY must be on or off"):
        from_environment({"QUEUE_NOTIFY": "no"})
