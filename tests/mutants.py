"""Breaks the code on purpose, one break at a time, and fails where the tests do not notice.

`tests/mutants.toml` says how a break is written. Each is made in a fresh copy of the tree, so the
tree itself is never touched; what is imported there is the copy, wherever the environment's own
installation points.
"""

import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
LIST: Final = ROOT / "tests" / "mutants.toml"
AT_ONCE: Final = (os.cpu_count() or 1) + 1  # they wait for processes more than they compute
FEW: Final = 4  # tests that are run before a second process has started
SECONDS_PER_MUTANT: Final = 400  # a quarter of the model takes two minutes on a busy machine
SECONDS_UNBROKEN: Final = 2_400
SECONDS_TO_TIDY: Final = 15
MARKER: Final = "COUNTERSIGN_MUTANT"  # in the environment of all that a test starts
NOT_COPIED: Final = (".git", ".venv", "__pycache__", ".*_cache", ".hypothesis", ".coverage*")
TESTS_FAILED: Final = 1  # pytest's exit code; the others say that nothing was tested
KEYS: Final = {"name", "file", "old", "new", "test"}
PYTEST: Final = ("-m", "pytest", "-x", "-q", "--no-header", "--tb=line", "-p", "no:cacheprovider")
WHERE_FROM: Final = "import console, queue_core; print(console.__file__, queue_core.__file__)"


class ListError(Exception):
    """The list asks for something that cannot be done; its text says what."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One break: in `file`, `old` (found once) becomes `new`, and `test` has to fail."""

    name: str
    file: str
    old: str
    new: str
    test: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of one mutant; `seconds` is how long its test took."""

    name: str
    killed: bool
    how: str
    seconds: float


def main(names: Sequence[str]) -> int:
    """Try the mutants called `names` (none given: all), and return the exit code."""
    try:
        mutants = chosen(names)
        check_unbroken(mutants)
    except ListError as error:
        print(f"mutants: {error}", file=sys.stderr)
        return 2
    with ThreadPoolExecutor(AT_ONCE) as pool:
        verdicts = list(pool.map(tried, mutants))
    survivors = [verdict.name for verdict in verdicts if not verdict.killed]
    print(f"{len(verdicts) - len(survivors)} mutants killed, {len(survivors)} survived", *survivors)
    return 1 if survivors else 0


def chosen(names: Sequence[str]) -> list[Mutant]:
    """Read the list, refuse what is wrong with it, and keep the mutants called `names`."""
    entries = tomllib.loads(LIST.read_text(encoding="utf-8")).get("mutant", [])
    mutants = [read(entry) for entry in entries]
    known = [mutant.name for mutant in mutants]
    if len(set(known)) < len(known):
        raise ListError(
            f"named twice: {', '.join(sorted({n for n in known if known.count(n) > 1}))}"
        )
    if unknown := set(names) - set(known):
        raise ListError(f"not in the list: {', '.join(sorted(unknown))}")
    return [mutant for mutant in mutants if not names or mutant.name in names]


def read(entry: dict[str, str]) -> Mutant:
    """Return one entry of the list as a Mutant whose `old` stands in its file exactly once."""
    if set(entry) != KEYS:
        raise ListError(f"{entry.get('name', '?')}: has {sorted(entry)}, needs {sorted(KEYS)}")
    mutant = Mutant(**entry)
    path = ROOT / mutant.file
    found = path.read_text(encoding="utf-8").count(mutant.old) if path.is_file() else -1
    if found < 0:
        raise ListError(f"{mutant.name}: no file {mutant.file}")
    if found != 1:
        raise ListError(f"{mutant.name}: `old` stands {found} times in {mutant.file}")
    if mutant.old == mutant.new:
        raise ListError(f"{mutant.name}: changes nothing")
    return mutant


def check_unbroken(mutants: Sequence[Mutant]) -> None:
    """Raise ListError unless every test of the list passes in an unbroken copy."""
    with copy_of_the_tree() as copy:
        check_imports(copy)
        for arguments in groups([mutant.test for mutant in mutants]):
            code, output = run(copy, arguments, SECONDS_UNBROKEN)
            if code != 0:
                raise ListError(
                    f"fails before anything is broken: {shlex.join(arguments)}\n{output}"
                )


def groups(tests: Sequence[str]) -> list[list[str]]:
    """Return the distinct tests: plain node ids in one run, anything with options by itself."""
    split = [shlex.split(test) for test in dict.fromkeys(tests)]
    plain = [words[0] for words in split if len(words) == 1]
    spread = ["-n", str(AT_ONCE)] if len(plain) > FEW else []
    return [[*spread, *plain]] * bool(plain) + [words for words in split if len(words) > 1]


def check_imports(copy: Path) -> None:
    """Raise ListError where Python in `copy` would import the code from anywhere else."""
    done = subprocess.run(
        [sys.executable, "-c", WHERE_FROM],
        cwd=tempfile.gettempdir(),
        env=environment(copy),
        capture_output=True,
        text=True,
        check=True,
    )
    if any(not path.startswith(str(copy)) for path in done.stdout.split()):
        raise ListError(f"the copy's code is not what is imported: {done.stdout.strip()}")


def tried(mutant: Mutant) -> Verdict:
    """Break a fresh copy as `mutant` says, run its test there, and print what came of it."""
    with copy_of_the_tree() as copy:
        path = copy / mutant.file
        whole = path.read_text(encoding="utf-8")
        path.write_text(whole.replace(mutant.old, mutant.new), encoding="utf-8")
        started = time.monotonic()
        code, output = run(copy, shlex.split(mutant.test), SECONDS_PER_MUTANT)
        seconds = time.monotonic() - started
    verdict = Verdict(mutant.name, code in (TESTS_FAILED, None), sentence(code, output), seconds)
    tell(verdict)
    return verdict


def sentence(code: int | None, output: str) -> str:
    """Say how a mutant's test ended."""
    if code is None:
        return f"no end within {SECONDS_PER_MUTANT} s"
    if code == 0:
        return "its test still passes"
    if code == TESTS_FAILED:
        last = [line for line in output.splitlines() if line.startswith(("FAILED", "ERROR"))]
        return last[-1][:160] if last else "its test fails"
    return f"proves nothing: pytest ended with {code}\n{output}"


def tell(verdict: Verdict) -> None:
    """Print one verdict, as soon as it is known."""
    word = "killed  " if verdict.killed else "SURVIVED"
    print(f"{word} {verdict.name} ({verdict.seconds:.1f} s): {verdict.how}", flush=True)


@contextmanager
def copy_of_the_tree() -> Iterator[Path]:
    """Yield a folder with a copy of the project, without what tools and runs leave behind."""
    copy = Path(tempfile.mkdtemp(prefix="mutant-"))
    try:
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(*NOT_COPIED), dirs_exist_ok=True)
        yield copy
    finally:
        end_what_is_left(copy)
        shutil.rmtree(copy, ignore_errors=True)


def environment(copy: Path) -> dict[str, str]:
    """Return the environment of a test in `copy`: its code comes before any installed one.

    CI, so that what hypothesis chooses is the same in each run.
    """
    return {**os.environ, "PYTHONPATH": str(copy), MARKER: str(copy), "CI": "true"}


def run(copy: Path, arguments: Sequence[str], seconds: int) -> tuple[int | None, str]:
    """Run pytest in `copy`; return its exit code (None: not over in time) and what it printed."""
    printed = copy / "printed"  # a file, since a pipe stays open as long as any grandchild does
    with printed.open("w") as sink:
        process = subprocess.Popen(
            [sys.executable, *PYTEST, *arguments],
            cwd=copy,
            env=environment(copy),
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    code = ended(process, seconds)
    return code, printed.read_text(encoding="utf-8", errors="replace")


def ended(process: subprocess.Popen[bytes], seconds: int) -> int | None:
    """Wait for a test; one that takes too long is asked, so that it can tidy up, then killed."""
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGINT)
    try:
        process.wait(SECONDS_TO_TIDY)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return None


def end_what_is_left(copy: Path) -> None:
    """Kill the processes that a broken test left behind: those that carry the copy's marker."""
    mark = f"{MARKER}={copy}".encode()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (entry / "environ").read_bytes().split(b"\0"):
                os.kill(int(entry.name), signal.SIGKILL)
        except OSError:
            continue  # it ended, or is somebody else's


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
