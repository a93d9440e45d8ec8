"""What console/serving.py keeps: this machine only, no proxy believed, nothing private in a log."""

import http.client
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SECONDS = 20
OURS = ("QUEUE_", "COV", "PG")  # settings of whoever runs the tests, and what slows a process
SERVE = (sys.executable, "-m", "gunicorn", "--config", str(ROOT / "gunicorn.conf.py"))
APP = """
def app(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [f"{environ['wsgi.url_scheme']} {environ['REMOTE_ADDR']}".encode()]
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Return a folder with an application in it."""
    folder = tmp_path_factory.mktemp("served")
    (folder / "served.py").write_text(APP)
    return folder


@pytest.fixture(scope="module")
def port(place, shared_database):
    """Serve the application as the Procfile serves the console, with an access log."""
    number = free_port()
    environ = {name: text for name, text in os.environ.items() if not name.startswith(OURS)}
    environ |= {"PORT": str(number), "PYTHONPATH": f"{place}{os.pathsep}{ROOT}"}
    environ["DATABASE_URL"] = shared_database.url
    with (place / "log").open("w") as log:
        server = subprocess.Popen(
            [*SERVE, "--access-logfile", "-", "served:app"], env=environ, stdout=log, stderr=log
        )
    yield number
    server.terminate()
    server.wait(SECONDS)


def get(port, path, headers):
    """Ask until the server listens, and return what it says."""
    deadline = time.monotonic() + SECONDS
    while True:
        conn = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
        try:
            conn.request("GET", path, headers=headers)
            return conn.getresponse().read().decode()
        except ConnectionRefusedError:
            assert time.monotonic() < deadline, "it never listened"
            time.sleep(0.05)
        finally:
            conn.close()


def test_no_header_makes_a_request_look_secure_or_come_from_elsewhere(port):
    spoofed = {"X-Forwarded-Proto": "https", "X-Forwarded-For": "10.1.2.3"}
    assert get(port, "/", spoofed) == "http 127.0.0.1"


def test_the_access_log_has_no_query_string(port, place):
    get(port, "/jobs?name=canary", {})
    log = place / "log"
    deadline = time.monotonic() + SECONDS
    while '"GET /jobs' not in log.read_text():
        assert time.monotonic() < deadline, "never logged"
        time.sleep(0.05)
    assert "canary" not in log.read_text()


def test_no_control_socket_is_opened_in_the_home_folder(place):
    printed = subprocess.run(
        [*SERVE, "--print-config", "served:app"],
        env={**os.environ, "PYTHONPATH": f"{place}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
        check=True,
    )
    settings = dict(line.split("=", 1) for line in printed.stdout.splitlines() if "=" in line)
    told = {name.strip(): value.strip() for name, value in settings.items()}
    assert told["control_socket_disable"] == "True"


def test_it_does_not_begin_on_a_database_that_is_away(place):
    url = f"postgresql://somebody:s3cret-canary@127.0.0.1:{free_port()}/shop"
    environ = {**os.environ, "PYTHONPATH": f"{place}{os.pathsep}{ROOT}", "DATABASE_URL": url}
    done = subprocess.run(
        [*SERVE, "served:app"],
        env={**environ, "PORT": str(free_port())},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 3
    assert "database shop on 127.0.0.1" in done.stderr
    assert "s3cret-canary" not in done.stderr
