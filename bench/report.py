"""All that the queue has to reach, in one table: `python -m bench.report`, in under 15 minutes.

Runs the benchmarks of `bench/targets.py` one after the other and prints Markdown; what each prints
itself goes to standard error as it comes, and to a file with `--lines`. `--only` takes the names
of parts; `--whole` takes the numbers of the promise where the report is content with smaller ones.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from bench import harness
from bench.peers.field import peers
from bench.targets import COSTS, PARTS, TARGETS, Line, Target

ROOT: Final = Path(__file__).parents[1]
NOT_MEASURED: Final = "not measured"


def run(name: str, *, whole: bool) -> list[Line]:
    """Run a part, passing on what it prints; returns its lines, also of one that failed."""
    part = PARTS[name]
    command = [sys.executable, "-m", part.module, *part.given(whole=whole)]
    print(f"# {' '.join(command[1:])}", file=sys.stderr)
    began, lines = time.monotonic(), list[Line]()
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        for text in process.stdout or ():
            print(text, end="", file=sys.stderr)
            lines.append(json.loads(text))
    took = f"{time.monotonic() - began:.0f} s"
    failed = f", and failed with {process.returncode}" if process.returncode else ""
    print(f"# {name} took {took}{failed}", file=sys.stderr)
    return lines


def shown(value: float) -> str:
    """Write a figure with as many digits as it is good for."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"  # noqa: PLR2004 - three digits


def reached(target: Target, lines: Sequence[Line]) -> tuple[str, str]:
    """Say what was reached, of several lines the worst, and whether that is enough."""
    found = target.found(lines)
    if not found:
        return NOT_MEASURED, NOT_MEASURED
    found.sort(key=lambda line: target.value(line) or 0.0)
    worst = found[-1] if target.at_most is not None else found[0]
    text = shown(target.value(worst) or 0.0)
    if target.to:
        text += f" ({shown(worst['value'])} {worst['unit']}; to: {worst['to']})"
    return text, "yes" if target.met(worst) else "**no**"


def machine() -> list[str]:
    """Say what it was measured on."""
    models = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        if line.startswith("model name")
    ]
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    told = subprocess.run(
        [harness.program("postgres"), "--version"], check=True, capture_output=True, text=True
    ).stdout.strip()
    settings = ", ".join(f"{name}={value}" for name, value in harness.SETTINGS.items())
    processor = f"{os.cpu_count()} × {models[0] if models else platform.machine()}"
    system = f"{platform.system()} {platform.release()}, Python {platform.python_version()}"
    return [
        f"{processor}, {memory:.0f} GiB, {system}",
        f"{told}; {settings}; the rest as it comes",
    ]


def table(found: dict[str, list[Line]], *, whole: bool) -> Iterable[str]:
    """Give the lines of the table, of the parts that were run."""
    yield "| what | must reach | reached | met |"
    yield "| --- | --- | --- | --- |"
    for target in TARGETS:
        if target.part in found:
            figure, met = reached(target, found[target.part])
            yield f"| {target.what} | {target.must} | {figure} | {met} |"
    if "drain" in found:
        yield ""
        yield "What a job costs, enqueued beforehand and drained by one worker:"
        yield ""
        for cost in COSTS:
            lines = cost.found(found["drain"])
            figure = shown(lines[0]["value"]) if lines else NOT_MEASURED
            yield f"- {cost.what}: {figure}"
    yield ""
    yield "Sizes, as the parts were called:"
    yield ""
    for name in found:
        part = PARTS[name]
        yield f"- {name}: `python -m {' '.join((part.module, *part.given(whole=whole)))}`"


def left_out() -> Iterable[str]:
    """Name the peers that are not there."""
    for peer in peers().values():
        if not peer.installed:
            yield f"- {peer.name} is not installed and was left out: `bench/peers/setup`"


def asked(arguments: list[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.report", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), metavar="PART")
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--output", type=Path, help="a file for the table; else it is printed")
    parser.add_argument("--lines", type=Path, help="a file for what the parts print")
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> None:
    """Run the parts and write the table."""
    options = asked(arguments)
    before, began = os.getloadavg()[0], time.monotonic()
    found = {name: run(name, whole=options.whole) for name in PARTS if name in options.only}
    minutes = (time.monotonic() - began) / 60
    loads = f"load {before:.1f} before the first, {os.getloadavg()[0]:.1f} after the last"
    text = "\n".join([
        *(f"- {line}" for line in machine()),
        f"- {minutes:.0f} minutes, {loads}",
        *left_out(),
        "",
        *table(found, whole=options.whole),
    ])  # fmt: skip
    if options.lines:
        every = [json.dumps(line) + "\n" for lines in found.values() for line in lines]
        options.lines.write_text("".join(every), encoding="utf-8")
    if options.output:
        options.output.write_text(text + "\n", encoding="utf-8")
    else:
        print(text)


if __name__ == "__main__":
    main(sys.argv[1:])
