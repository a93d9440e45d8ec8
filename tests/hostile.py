"""Arguments that cannot be a job's: each with the field that its refusal has to name."""

from collections.abc import Iterator, Mapping
from typing import Any

from tests.conftest import CANARY


class Catalogue(Mapping[str, object]):
    """A mapping that is no dict, and gives other values each time it is read."""

    def __init__(self, *readings: dict[str, object]) -> None:
        self._readings = iter(readings)
        self._now = readings[0]

    def __getitem__(self, key: str) -> object:
        return self._now[key]

    def __iter__(self) -> Iterator[str]:
        self._now = next(self._readings, self._now)
        return iter(self._now)

    def __len__(self) -> int:
        return len(self._now)


def nested(levels: int) -> list[Any]:
    """Return a text inside `levels` lists."""
    value: Any = CANARY
    for _ in range(levels):
        value = [value]
    return value


def holding_itself() -> list[Any]:
    """Return a list that holds itself."""
    value: list[Any] = [CANARY]
    value.append(value)
    return value


def holding_itself_twice() -> list[Any]:
    """Return a list that holds itself twice, so that each level has double the last one's."""
    value: list[Any] = [CANARY]
    value += [value, value]
    return value


def shared(levels: int) -> list[Any]:
    """Return 2 ** levels texts in a few lists, each held twice by the next."""
    value: list[Any] = [CANARY]
    for _ in range(levels):
        value = [value, value]
    return value


HOSTILE: dict[str, tuple[Any, str]] = {
    "NUL in a value": ({"address": f"{CANARY}\0"}, "address"),
    "NUL in a key": ({f"to\0{'x' * 9}": CANARY}, "to\ufffdxxxxxxxxx"),
    "NUL in a key below": ({"address": {"a\0b": CANARY}}, "address"),
    "NUL deep inside": ({"address": [{"x": [[CANARY, "\0"]]}]}, "address"),
    "a high surrogate": ({"address": f"\ud800{CANARY}"}, "address"),
    "a low surrogate": ({"address": f"{CANARY}\udfff"}, "address"),
    "surrogates in a pair": ({"address": f"\ud83d\ude00{CANARY}"}, "address"),
    "a surrogate in a key": ({"\ud800": CANARY}, "\ufffd"),
    "a surrogate in a key below": ({"address": {"\udfff": CANARY}}, "address"),
    "NaN": ({"address": float("nan")}, "address"),
    "infinity": ({"address": [CANARY, float("inf")]}, "address"),
    "minus infinity": ({"address": {CANARY: float("-inf")}}, "address"),
    "1e400 as JSON reads it": ({"address": 1e400}, "address"),
    "a number of 5,000 digits": ({"address": 10**5_000}, "address"),
    "minus a number of 5,000 digits": ({"address": [-(10**5_000), CANARY]}, "address"),
    "65 levels": ({"address": nested(64)}, "address"),
    "7,000 levels": ({"address": nested(7_000)}, "address"),
    "a list that holds itself": ({"address": holding_itself()}, "address"),
    "a list that holds itself twice": ({"address": holding_itself_twice()}, "address"),
    "2 ** 50 texts in 50 lists": ({"address": shared(50)}, "address"),
    "200,000 times 200,000 numbers": ({"address": [[0] * 200_000] * 200_000}, "address"),
    "5 MB of text": ({"address": CANARY + "x" * 5_000_000}, "address"),
    "5 MB of numbers": ({"address": list(range(700_000))}, "address"),
    "5 MB in a key": ({CANARY[:6] * 833_334: 1}, ""),
    "256 KiB and one byte": ({"address": "x" * (262_144 - len('{"address":""}') + 1)}, ""),
    "300 KB in small fields": ({f"k{n}": "x" * 30 for n in range(10_000)}, ""),
    "a number as a key": ({7: CANARY}, "int"),
    "None as a key": ({None: CANARY}, "NoneType"),
    "a tuple as a key": ({(1, CANARY): 1}, "tuple"),
    "a number as a key below": ({"address": {7: CANARY}}, "address"),
    "a set": ({"address": {CANARY}}, "address"),
    "bytes": ({"address": CANARY.encode()}, "address"),
    "an object": ({"address": object()}, "address"),
    "a class": ({"address": Catalogue}, "address"),
    "a mapping below that is no dict": ({"address": Catalogue({"x": CANARY})}, "address"),
    "a generator": ({"address": (each for each in CANARY)}, "address"),
    "a list in place of the arguments": ([CANARY], ""),
    "a text in place of the arguments": (CANARY, ""),
    "pairs in place of the arguments": ([("address", CANARY)], ""),
    "a number in place of the arguments": (7, ""),
}
