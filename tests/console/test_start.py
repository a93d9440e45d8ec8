"""`bin/start`: what it asks, prints and keeps, and that it leaves no process behind."""

import http.client
import os
import pty
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import closing, suppress
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from console import start, start_options, welcome
from console.cli import signature
from queue_core import sessions
from queue_core.embedded import folders
from queue_core.queries import operators as people

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 90
MARKER = "COUNTERSIGN_START_TEST"
SETTINGS = ("DATABASE_URL", "QUEUE_OWNER_URL", "QUEUE_DATA", "QUEUE_SECRET_KEY", "QUEUE_HOSTS")
ENDS_WHEN_ASKED_TWICE = """
import os, pathlib, time
from console import procfile, start
command = "sh -c 'trap \\"trap - TERM; touch asked\\" TERM; touch up; while :; do sleep 0.1; done'"
parts = procfile.begin({"a": command}, folder=pathlib.Path("."), environ=os.environ)
while not os.path.exists("up"):
    time.sleep(0.02)
start.end(parts)
"""
PASSWORD = re.compile(r"password\s+(\S+)\s+\(shown only now\)")


def until(condition, seconds=SECONDS):
    """Wait until `condition()` is true, at most `seconds`, and return what it gave."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.05)
    return value


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def environ_of(pid):
    with suppress(OSError):
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return []


def marked(mark):
    """Return the pids of all live processes that carry `mark` in their environment."""
    wanted = f"{MARKER}={mark}".encode()
    pids = [int(entry.name) for entry in Path("/proc").glob("[0-9]*")]
    return [pid for pid in pids if wanted in environ_of(pid)]


def command_of(pid):
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    return ""


class Started:
    """A running `bin/start` on a data folder, and what it has printed."""

    def __init__(self, folder, *arguments, **settings):
        self.folder = folder
        self.port = free_port()
        self.log = folder.parent / f"log-{self.port}"
        self.mark = str(folder.parent)
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "console.start", "--port", str(self.port), *arguments],
                cwd=folder.parent,
                env={**clean(), MARKER: self.mark, "PYTHONPATH": str(ROOT), **settings},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                process_group=0,
            )

    @property
    def printed(self):
        return self.log.read_text()

    def until_welcome(self):
        until(lambda: "Ctrl-C ends everything" in self.printed or self.process.poll() is not None)
        assert self.process.poll() is None, self.printed
        return self.printed

    def password(self):
        found = PASSWORD.search(self.until_welcome())
        assert found, self.printed
        return found[1]

    def interrupt(self):
        os.killpg(self.process.pid, signal.SIGINT)
        return self.process.wait(SECONDS)

    def end_by(self, number):
        """Send a signal to it alone, and check that it leaves in order and leaves nothing."""
        self.process.send_signal(number)
        assert self.process.wait(SECONDS) == 0
        assert marked(self.mark) == []

    def status(self, path):
        conn = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        with closing(conn):
            conn.request("GET", path)
            with conn.getresponse() as response:
                return response.status

    def part(self, words):
        """Return the pid of the part whose command holds `words`."""
        return until(lambda: next((p for p in marked(self.mark) if words in command_of(p)), None))


def clean():
    """Return this environment without any of our settings."""
    return {name: value for name, value in os.environ.items() if name not in SETTINGS}


@pytest.fixture
def place():
    """Return a folder for one start, which a server that dropped root's rights may pass."""
    folder = Path(tempfile.mkdtemp(prefix="start-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def begin(place):
    """Begin starts on one data folder, and leave nothing of them behind."""
    begun = []

    def _begin(*arguments, **settings):
        begun.append(Started(place / "data", "--data", "data", *arguments, **settings))
        return begun[-1]

    yield _begin
    for each in begun:
        with suppress(ProcessLookupError):
            each.process.terminate()
        each.process.wait(SECONDS)
    assert until(lambda: not marked(str(place)), 30), "a process was left behind"


@pytest.fixture
def own(server):
    """Return the URL of an empty database of somebody's own, with a password in it."""
    name = f"shop_{time.monotonic_ns()}"
    with psycopg.connect(server.owner_url, autocommit=True) as conn:
        conn.execute(f"CREATE DATABASE {name}".encode())
        yield make_conninfo(server.owner_url, dbname=name, password="s3cret-canary")
        conn.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


def run_start(*arguments, stdin=subprocess.DEVNULL, **settings):
    return subprocess.run(
        [sys.executable, "-m", "console.start", *arguments],
        cwd=ROOT,
        env={**clean(), **settings},
        stdin=stdin,
        capture_output=True,
        text=True,
        timeout=SECONDS / 3,
        check=False,
    )


def schema_exists(url):
    with psycopg.connect(url) as conn:
        return conn.execute("SELECT to_regnamespace('countersign')").fetchone() != (None,)


# What is refused before anything starts


@pytest.mark.parametrize("port", ["x", "-1", "65536", "٣", ""])
def test_a_port_that_is_none_is_refused(port):
    with pytest.raises(SystemExit) as refused:
        start_options.parse(["--port", port])
    assert refused.value.code == 2


def test_what_is_refused_at_once_leaves_no_data_folder(tmp_path):
    done = run_start("--port", "65536", "--data", str(tmp_path / "data"))
    assert done.returncode == 2
    assert not (tmp_path / "data").exists()


def test_a_port_in_use_is_one_line_before_anything_starts(tmp_path):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        done = run_start("--port", str(port), "--data", str(tmp_path / "data"))
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert f"Port {port} cannot be used" in done.stderr
    assert not (tmp_path / "data").exists()


def test_a_data_folder_that_is_a_file_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    done = run_start("--port", "0", "--data", str(tmp_path / "file"))
    assert done.returncode == 3
    assert done.stderr.count("\n") == 1
    assert str(tmp_path / "file") in done.stderr


def test_an_empty_data_folder_name_is_refused():
    assert run_start("--data", " ").returncode == 2


def test_a_setting_that_cannot_be_used_is_named(tmp_path):
    done = run_start("--data", str(tmp_path), "--port", "0", QUEUE_STALE_AFTER="soon")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "QUEUE_STALE_AFTER" in done.stderr


def test_a_data_folder_is_meant_from_where_one_stands(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("QUEUE_DATA", "mine")
    assert start_options.environment(None, 1)["QUEUE_DATA"] == str(tmp_path / "mine")
    assert start_options.environment(start_options.folder("other"), 1)["QUEUE_DATA"] == str(
        tmp_path / "other"
    )


SLOW_TO_IMPORT = """
import pathlib, sys, time
if sys.flags.no_site:
    pathlib.Path(r"{folder}", "importing").touch()
    time.sleep(60)
"""


def test_ctrl_c_before_anything_is_imported_is_one_line(ctrl_c, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(SLOW_TO_IMPORT.format(folder=tmp_path))
    begun = subprocess.Popen(
        [ROOT / "bin" / "start", "--port", "0", "--data", str(tmp_path / "data")],
        env={**clean(), "PYTHONPATH": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
    )
    until((tmp_path / "importing").exists)
    os.killpg(begun.pid, signal.SIGINT)
    printed = begun.communicate(timeout=SECONDS)
    assert printed == ("", "bin/start: ended before anything was started.\n")
    assert begun.returncode == 130
    assert not (tmp_path / "data").exists()


# A database of one's own


def test_a_database_of_ones_own_is_named_and_nothing_changed_without_leave(own):
    done = run_start("--port", "0", DATABASE_URL=own)
    assert done.returncode == 2
    assert "database shop_" in done.stdout
    assert "--migrate" in done.stderr
    assert "s3cret-canary" not in done.stdout + done.stderr
    assert not schema_exists(own)


def test_a_database_that_the_owners_url_names_is_named_too(own):
    other = make_conninfo(own, dbname="postgres")
    done = run_start("--port", "0", DATABASE_URL=other, QUEUE_OWNER_URL=own)
    assert done.returncode == 2
    assert "database postgres" in done.stdout
    assert "the schema is changed: database shop_" in done.stdout
    assert "s3cret-canary" not in done.stdout + done.stderr


@pytest.mark.parametrize("how", ["option", "setting"])
def test_a_home_that_nobody_knows_is_one_line(how):
    folder = "~nobody-of-that-name/queue"
    given = ["--data", folder] if how == "option" else []
    done = run_start("--port", "0", *given, QUEUE_DATA=folder)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "home folder" in done.stderr


def test_a_person_who_does_not_say_yes_has_changed_nothing(own):
    keyboard, terminal = pty.openpty()
    os.write(keyboard, b"n\n")
    done = run_start("--port", "0", stdin=terminal, DATABASE_URL=own)
    os.close(keyboard)
    os.close(terminal)
    assert done.returncode == 2
    assert "Nothing was changed" in done.stderr
    assert not schema_exists(own)


def test_a_database_that_is_away_is_one_line(tmp_path):
    url = f"postgresql://somebody:s3cret-canary@127.0.0.1:{free_port()}/shop"
    done = run_start("--port", "0", "--migrate", DATABASE_URL=url)
    assert done.returncode == 3
    assert done.stderr.count("\n") == 1
    assert "s3cret-canary" not in done.stdout + done.stderr


@pytest.mark.slow
def test_a_database_of_ones_own_gets_schema_and_operator_but_never_the_example(hangup, begin, own):
    begun = begin("--migrate", DATABASE_URL=own)
    password = begun.password()
    with psycopg.connect(own, autocommit=True) as conn:
        assert sessions.sign_in(conn, "ops:admin", password, address="127.0.0.1").role == "admin"
        assert conn.execute("SELECT count(*) FROM countersign.jobs").fetchone() == (0,)
    assert begun.interrupt() == 0
    again = begin(DATABASE_URL=own)
    assert "a new one: " in again.until_welcome()
    again.end_by(signal.SIGHUP)
    assert "s3cret-canary" not in begun.printed + again.printed


# The embedded one


def connected(folder):
    """Connect to the embedded Postgres of a start that runs, without becoming one of its users."""
    url = folders.url_of(folders.socket_folder(folder.resolve()), "postgres", "countersign")
    return psycopg.connect(url, autocommit=True)


def counted(conn):
    """Return how many jobs there are, in any state."""
    return conn.execute("SELECT count(*) FROM countersign.jobs").fetchall()[0][0]


@pytest.mark.slow
def test_a_first_start_prints_a_password_once_and_a_second_one_keeps_everything(begin):
    first = begin()
    password = first.password()
    assert first.printed.count(password) == 1
    assert first.status("/readyz") == 200
    with connected(first.folder) as conn:
        assert sessions.sign_in(conn, "ops:admin", password, address="127.0.0.1").role == "admin"
        acts = conn.execute("SELECT act, by, subject_name FROM countersign.acts").fetchall()
        examples = counted(conn)
    assert signature.set_up_code().startswith("setup:")
    assert acts == [("added", signature.set_up_code(), "ops:admin")]
    assert examples > 100
    assert first.interrupt() == 0
    assert marked(first.mark) == []

    second = begin()
    assert f"QUEUE_DATA={second.folder}" in second.until_welcome()
    assert "operators reset ops:admin" in second.printed
    with connected(second.folder) as conn:
        assert [row.code for row in people.list_operators(conn)] == ["ops:admin"]
        assert sessions.sign_in(conn, "ops:admin", password, address="127.0.0.1")
        assert counted(conn) == examples
    second.end_by(signal.SIGTERM)


@pytest.mark.slow
def test_of_two_first_starts_at_once_one_adds_the_operator(database, monkeypatch, capsys):
    add = welcome.add_first_operator

    def add_behind_another(conn):
        add(conn)
        return add(conn)

    monkeypatch.setattr(welcome, "add_first_operator", add_behind_another)
    place = start_options.Place(database.url, database.owner_url, own=False)
    welcome.welcome("http://127.0.0.1:1/", place, {})
    printed = capsys.readouterr().out
    assert "a new one:" in printed
    assert "shown only now" not in printed


# Endings


@pytest.fixture
def started(begin):
    """Give a start without the example that is up."""
    begun = begin("--no-example")
    begun.until_welcome()
    return begun


@pytest.mark.slow
def test_a_signal_while_it_starts_leaves_no_process_behind(begin):
    begun = begin("--no-example")
    until(lambda: any("postgres" in command_of(pid) for pid in marked(begun.mark)))
    assert begun.interrupt() == 0
    assert marked(begun.mark) == []


@pytest.mark.slow
def test_a_start_that_is_killed_takes_all_of_it_along(started):
    with connected(started.folder) as conn:
        assert counted(conn) == 0
    assert len(marked(started.mark)) > 3
    started.process.kill()
    started.process.wait(SECONDS)
    until(lambda: not marked(started.mark))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "words"), [("web", "gunicorn"), ("worker", "queue work")])
def test_a_part_that_ends_by_itself_is_named_and_ends_the_other(started, name, words):
    until(lambda: started.part(words))
    victim = min(pid for pid in marked(started.mark) if words in command_of(pid))
    os.kill(victim, signal.SIGKILL)
    assert started.process.wait(SECONDS) == 1
    assert f"{name} was ended by signal 9" in started.printed
    until(lambda: not marked(started.mark), 30)


@pytest.mark.parametrize(("before", "printed"), [("SIG_IGN", "went on\n"), ("SIG_DFL", "")])
def test_under_nohup_a_terminal_that_goes_away_ends_nothing(before, printed):
    code = f"""
import os, signal
from console import start, start_options, welcome
def run(options):
    os.kill(os.getpid(), signal.SIGHUP)
    print("went on")
    return 0
signal.signal(signal.SIGHUP, signal.{before})
start.run = run
raise SystemExit(start.main([]))
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, printed, "")


def test_a_second_signal_while_ending_is_passed_on(tmp_path):
    ending = subprocess.Popen(
        [sys.executable, "-c", ENDS_WHEN_ASKED_TWICE],
        cwd=tmp_path,
        env={**clean(), "PYTHONPATH": str(ROOT)},
    )
    with ending:
        until((tmp_path / "asked").exists)
        ending.send_signal(signal.SIGINT)
        assert ending.wait(start.ENDING_SECONDS - 5) == 0
