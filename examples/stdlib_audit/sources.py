"""Which files are audited, and what there is to say about one."""

import ast
import os
import sysconfig
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

BROKEN: Final = Path(__file__).resolve().parent / "broken"
LEFT_OUT: Final = frozenset({"site-packages", "dist-packages", "__pycache__"})
"""What others installed, and what the interpreter compiled."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Facts:
    """What is said of one file. `lines` counts line ends, as `wc -l` does."""

    lines: int
    bytes: int
    functions: int
    classes: int
    imports: int
    longest_function: str | None
    longest_lines: int


def folders() -> tuple[Path, Path]:
    """Return the folder of the standard library, and that of our broken files."""
    return Path(sysconfig.get_path("stdlib")).resolve(), BROKEN


def files() -> Iterator[Path]:
    """Yield every source file below the folders, in a fixed order."""
    for folder in folders():
        for place, below, names in os.walk(folder):
            below[:] = sorted(set(below) - LEFT_OUT)
            yield from (Path(place, name) for name in sorted(names) if name.endswith(".py"))


def facts(content: bytes, shown_as: str) -> Facts:
    """Parse a file and say what is in it. Raises what parsing it raises."""
    tree = parsed(content, shown_as)
    nodes = list(ast.walk(tree))
    functions = [node for node in nodes if isinstance(node, Function)]
    longest = max(functions, key=length, default=None)
    return Facts(
        lines=content.count(b"\n"),
        bytes=len(content),
        functions=len(functions),
        classes=sum(isinstance(node, ast.ClassDef) for node in nodes),
        imports=sum(isinstance(node, ast.Import | ast.ImportFrom) for node in nodes),
        longest_function=longest.name if longest else None,
        longest_lines=length(longest) if longest else 0,
    )


def length(function: Function) -> int:
    """Return how many lines a function takes."""
    return (function.end_lineno or function.lineno) - function.lineno + 1


def parsed(content: bytes, shown_as: str) -> ast.Module:
    """Parse a file, without a word about the old spellings that the library's own tests hold."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(content, shown_as)


def function_sources() -> Iterator[str]:
    """Yield the text of every function of every file that can be parsed."""
    for path in files():
        try:
            text = path.read_bytes().decode()
            tree = parsed(text.encode(), path.name)
        except (OSError, ValueError, SyntaxError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, Function):
                yield ast.get_source_segment(text, node) or ""
