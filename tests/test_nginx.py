"""Behind Debian's nginx, set up as docs/flask.md has it: https, a name of its own, a prefix."""

import http.client
import os
import re
import shutil
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from html import unescape
from pathlib import Path
from urllib.parse import urlencode

import pytest

from queue_core import operators
from tests.console.scenes import PASSWORD

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "flask.md").read_text(encoding="utf-8")
(SERVER,) = re.findall(r"^```nginx\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
OPENSSL = shutil.which("openssl")
SECONDS = 30
OURS = ("QUEUE_", "COV", "PG")  # settings of whoever runs the tests, and what slows a process
FRAME = """
pid {folder}/pid;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    {server}
}}
"""
HIDDEN = re.compile(r'name="(\w+)" value="([^"]*)"')

pytestmark = pytest.mark.skipif(
    NGINX is None or OPENSSL is None, reason="NOT RUN: no nginx and openssl (Debian: nginx openssl)"
)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def certificate(folder: Path) -> tuple[Path, Path]:
    """Make a certificate that nobody but this test has to believe."""
    made, key = folder / "queue.pem", folder / "queue.key"
    asked = [str(OPENSSL), "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    asked += ["-subj", "/CN=queue.example", "-out", str(made), "-keyout", str(key)]
    subprocess.run(asked, check=True, capture_output=True, timeout=SECONDS)
    return made, key


def configured(folder: Path, port: int, console: int) -> Path:
    made, key = certificate(folder)
    changes = {
        "listen 443 ssl": f"listen 127.0.0.1:{port} ssl",
        "127.0.0.1:8000": f"127.0.0.1:{console}",
        "/etc/ssl/queue.example.pem": str(made),
        "/etc/ssl/queue.example.key": str(key),
    }
    server = SERVER
    for ours, theirs in changes.items():
        assert server.count(ours) == 1
        server = server.replace(ours, theirs)
    path = folder / "nginx.conf"
    path.write_text(FRAME.format(folder=folder, server=server))
    return path


class Visitor:
    """Asks nginx over https by the console's name, and keeps the console's cookie."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.host = f"queue.example:{port}"
        self.cookie = ""

    def ask(
        self, path: str, form: dict[str, str] | None = None, **more: str
    ) -> tuple[http.client.HTTPResponse, str]:
        context = ssl._create_unverified_context()
        conn = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=SECONDS, context=context)
        headers = {"Host": self.host, "Cookie": self.cookie, **more}
        body = None
        if form is not None:
            headers |= {"Content-Type": "application/x-www-form-urlencoded"}
            headers |= {"Origin": f"https://{self.host}"}
            body = urlencode(form)
        try:
            conn.request("POST" if body is not None else "GET", path, body, headers)
            answer = conn.getresponse()
            text = answer.read().decode()
        finally:
            conn.close()
        given = answer.headers["Set-Cookie"]
        self.cookie = given.partition(";")[0] if given else self.cookie
        return answer, text


@pytest.fixture(scope="module")
def behind(shared_database, tmp_path_factory) -> Iterator[int]:
    """Serve the console by gunicorn, nginx in front of it; give its port once both answer."""
    port, console, folder = free_port(), free_port(), tmp_path_factory.mktemp("nginx")
    folder.chmod(0o755)
    kept = {name: text for name, text in os.environ.items() if not name.startswith(OURS)}
    environ = {**kept, "PYTHONPATH": str(ROOT), "PORT": str(console)}
    environ |= {"DATABASE_URL": shared_database.url, "QUEUE_DATA": str(folder / "data")}
    environ |= {"QUEUE_HOSTS": "queue.example", "QUEUE_PROXIES": "127.0.0.1"}
    gunicorn = [sys.executable, "-m", "gunicorn", "--config", "python:console.serving"]
    nginx = [str(NGINX), "-e", "stderr", "-p", str(folder), "-c"]
    nginx += [str(configured(folder, port, console)), "-g", "daemon off; master_process off;"]
    log = (folder / "log").open("w")
    parts = [
        subprocess.Popen(
            [*gunicorn, "console:create_app()"], cwd=folder, env=environ, stdout=log, stderr=log
        ),
        subprocess.Popen(nginx, stdout=log, stderr=log),
    ]
    try:
        asking = Visitor(port)
        wait_for(lambda: asking.ask("/ops/readyz")[0].status == 200, folder / "log")
        yield port
    finally:
        for part in parts:
            part.terminate()
            part.wait(SECONDS)
        log.close()


@pytest.fixture
def visitor(behind) -> Visitor:
    """Give somebody whom nginx has not seen before."""
    return Visitor(behind)


def wait_for(is_so: Callable[[], bool], log: Path) -> None:
    deadline = time.monotonic() + SECONDS
    while True:
        try:
            if is_so():
                return
        except OSError:
            pass
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.1)


def fields(page: str, action: str) -> dict[str, str]:
    """Return the hidden fields of the form that leads to an address."""
    form = page.partition(f'action="{action}"')[2].partition("</form>")[0]
    return {name: unescape(value) for name, value in HIDDEN.findall(form)}


@pytest.mark.slow
def test_people_sign_in_act_and_sign_out_behind_it(visitor, shared_database, job_in):
    owner, conn = shared_database.owner(), shared_database.connect()
    operators.add(owner, "ops:ada", "admin", PASSWORD, by="setup:x", reason="x", via="code")
    job = job_in(conn, "failed").id
    asked, _ = visitor.ask(f"/ops/jobs/{job}")
    assert (asked.status, asked.headers["Location"]) == (303, f"/ops/sign-in?next=/ops/jobs/{job}")
    shown, page = visitor.ask(asked.headers["Location"])
    assert shown.headers["Set-Cookie"].startswith("__Secure-countersign=")
    assert "Strict-Transport-Security" not in shown.headers
    form = fields(page, "/ops/sign-in") | {"code": "ops:ada", "password": PASSWORD}
    entered, _ = visitor.ask("/ops/sign-in", form)
    assert (entered.status, entered.headers["Location"]) == (303, f"/ops/jobs/{job}")

    _, page = visitor.ask(f"/ops/jobs/{job}")
    act = f"/ops/jobs/{job}/retry"
    form = fields(page, act) | {"operator_code": "ops:ada", "reason": "deploy_error", "note": ""}
    done, _ = visitor.ask(act, form)
    assert (done.status, done.headers["Location"]) == (303, f"/ops/jobs/{job}")
    states = conn.execute("SELECT state FROM countersign.job_states WHERE id = %s", [job])
    assert states.fetchone() == {"state": "ready"}
    for address in set(re.findall(r'(?:href|src)="(/[^"#?]*)', page)):
        assert address.startswith("/ops/")
        assert visitor.ask(address)[0].status == 200, address

    left, _ = visitor.ask("/ops/sign-out", fields(page, "/ops/sign-out"))
    assert left.headers["Location"] == "/ops/sign-in"
    assert visitor.ask("/ops/")[0].status == 303


@pytest.mark.slow
def test_what_anybody_sends_along_is_overwritten(visitor):
    page, text = visitor.ask(
        "/ops/sign-in",
        **{"X-Forwarded-Proto": "http", "X-Forwarded-Host": "localhost"},
        **{"X-Forwarded-Prefix": "//evil.example", "X-Forwarded-For": "127.0.0.1"},
    )
    assert page.status == 200
    assert 'action="/ops/sign-in"' in text
    assert visitor.ask("/ops/sign-in", Host="localhost")[0].status == 400
    moved, _ = visitor.ask("/ops/jobs")
    assert moved.headers["Location"] == f"https://{visitor.host}/ops/jobs/"
