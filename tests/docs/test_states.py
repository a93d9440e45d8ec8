import re
from pathlib import Path

import pytest

from queue_core.states import MOVES, STATES, legal_verbs

PAGE = (Path(__file__).parents[2] / "docs" / "states.md").read_text(encoding="utf-8")
ARROWS = re.findall(r"^    (\S+) --> (\w+): (\w+)", PAGE, re.MULTILINE)


@pytest.mark.parametrize("verb", MOVES)
def test_each_move_is_drawn_from_and_to_exactly_its_states(verb):
    drawn = [(source, target) for source, target, move in ARROWS if move == verb]

    assert {source for source, _ in drawn if source != "[*]"} == MOVES[verb].sources
    assert {target for _, target in drawn} == MOVES[verb].targets
    assert len(set(drawn)) == len(drawn)


def test_nothing_is_drawn_that_is_no_move():
    assert {move for _, _, move in ARROWS} == set(MOVES)
    assert len(ARROWS) == PAGE.count(" --> ")


def test_the_acts_of_each_state_are_the_legal_ones():
    listed = dict(re.findall(r"^\| (\w+) \| ([\w, –]+) \|$", PAGE, re.MULTILINE))

    assert listed.pop("state") == "acts"
    assert listed == {state: ", ".join(legal_verbs(state)) or "–" for state in STATES}
