"""What a service gets that installs the package: types, and everything that a checkout serves."""

import json
import os
import subprocess
import sys
import sysconfig
import zipfile
from importlib import resources
from pathlib import Path

import psycopg
import pytest
from psycopg import conninfo

from bench.addresses import NEEDED
from console.rights import OWN_SIGN_IN

ROOT = Path(__file__).resolve().parents[1]
SECONDS = 120
FOLDERS = {
    "templates": "console/templates",
    "static": "console/static",
    "migrations": "queue_core/migrations",
}
JOBS = """
from queue_core import Registry

jobs = Registry()

@jobs.job("shop.greet")
def greet(run):
    return "hello"
"""
COMMANDS = """
import json, sys
from click.testing import CliRunner
from console.cli import queue

ended = [CliRunner().invoke(queue, words) for words in json.loads(sys.argv[1])]
assert not any(each.exit_code for each in ended), [each.output for each in ended]
print(json.dumps([each.stdout for each in ended]))
"""
PAGES = """
import json, sys
from flask import Flask
import console, queue_core
from console import Countersign, create_app

host = Flask("shop", static_folder=None)
Countersign(host, url_prefix="/ops", identify=lambda _: ("shop:ada", "admin"))
alone, job = create_app(), sys.argv[1]
rules = [rule for rule in alone.url_map.iter_rules() if "GET" in rule.methods]
paths = {rule.rule: rule.endpoint for rule in rules if not rule.arguments}
paths |= {f"/jobs/{job}": "jobs.show"} | {f"/static/{name}": name for name in sys.argv[2:]}
client = host.test_client()
answers = {
    endpoint: client.get(f"/ops{path}", buffered=True).status_code
    for path, endpoint in paths.items()
}
answers["/sign-in"] = alone.test_client().get("/sign-in").status_code
print(json.dumps({"from": [console.__file__, queue_core.__file__], "answers": answers}))
"""


@pytest.mark.parametrize("package", ["queue_core", "console"])
def test_type_checkers_of_others_may_read_our_types(package):
    assert (resources.files(package) / "py.typed").is_file()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """Build the wheel."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=SECONDS)
    (made,) = folder.glob("*.whl")
    return made


@pytest.fixture(scope="module")
def python(wheel, tmp_path_factory) -> Path:
    """Install the wheel where nothing of the checkout is; what it needs is lent by this one."""
    folder = tmp_path_factory.mktemp("elsewhere")
    make = [sys.executable, "-m", "venv", "--without-pip", str(folder)]
    subprocess.run(make, check=True, timeout=SECONDS)
    program = folder / "bin" / "python"
    ask = "import sysconfig; print(sysconfig.get_path('purelib'))"
    found = subprocess.run([program, "-c", ask], check=True, capture_output=True, text=True)
    site = Path(found.stdout.strip())
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(site)
    # Only a folder that Python itself knows has its .pth files read, so the checkout stays out.
    (site / "lent.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    return program


@pytest.fixture
def empty(server, tmp_path) -> dict[str, str]:
    """Give the environment of a service whose database holds nothing yet."""
    name = "wheel_test"
    with psycopg.connect(server.owner_url, autocommit=True) as admin:
        admin.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        admin.execute(f"CREATE DATABASE {name} TEMPLATE template0")
    (tmp_path / "shopjobs.py").write_text(JOBS)
    kept = {key: text for key, text in os.environ.items() if not key.startswith("COV")}
    kept.pop("PYTHONPATH", None)
    url = conninfo.make_conninfo(server.owner_url, dbname=name)
    return {**kept, "DATABASE_URL": url, "QUEUE_DATA": str(tmp_path), "PYTHONPATH": str(tmp_path)}


@pytest.mark.slow
@pytest.mark.parametrize("folder", FOLDERS)
def test_every_file_that_is_served_or_applied_is_in_the_wheel(wheel, folder):
    here = [path for path in (ROOT / folder).rglob("*") if path.is_file()]
    wanted = {f"{FOLDERS[folder]}/{path.relative_to(ROOT / folder).as_posix()}" for path in here}
    packed = {
        name for name in zipfile.ZipFile(wheel).namelist() if name.startswith(FOLDERS[folder])
    }
    assert packed == wanted


@pytest.mark.slow
def test_outside_a_checkout_it_migrates_works_and_shows_all_its_pages(python, empty, tmp_path):
    def run(*arguments: str) -> str:
        done = subprocess.run(
            [str(python), *arguments],
            cwd=tmp_path, env=empty, capture_output=True, text=True, timeout=SECONDS, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    def each(*commands: tuple[str, ...]) -> list[str]:
        return json.loads(run("-c", COMMANDS, json.dumps(commands)))

    flask = ("-m", "flask", "queue")
    run(*flask, "migrate")
    add = ("operators", "add", "ops:ada", "--role", "admin", "--reason", "first")
    declared, signed = ("--jobs", "shopjobs:jobs"), ("--by", "ops:ada", "--reason", "first")
    _, printed = each(add, ("enqueue", *declared, *signed, "shop.greet"))
    job = printed.split()[0]
    run(*flask, "work", *declared, "--one")
    counted, checked = each(("counts", "--json"), ("check", "--json"))
    assert json.loads(counted)["completed"] == 1
    assert json.loads(checked)["ok"]
    static = [path.relative_to(ROOT / "static").as_posix() for path in files(ROOT / "static")]
    shown = json.loads(run("-c", PAGES, job, *static))
    assert all(str(python.parents[1]) in origin for origin in shown["from"])
    wrong = {endpoint: code for endpoint, code in shown["answers"].items() if code != 200}
    assert set(wrong.values()) == {404}
    assert set(wrong) - OWN_SIGN_IN - set(NEEDED) == set()
    serving = ("--check-config", "--config", "python:console.serving", "console:create_app()")
    run("-m", "gunicorn", *serving)


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]
