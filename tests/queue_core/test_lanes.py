"""Lanes: what a claimer remembers, and which lanes a claim is for."""

import uuid
from itertools import pairwise

from queue_core.lanes import END, MOST, TOLD, Head, Lane, Lanes, Place, quotas


def lane(number: int) -> Lane:
    return Lane("q", f"name-{number}")


def place(number: int, rank: int = 0) -> Place:
    return Place(rank, f"2026-11-30 08:00:{number:06.3f}", uuid.UUID(int=number))


def heads(*numbers: int) -> list[Head]:
    return [Head(lane(number), place(number)) for number in numbers]


def looked(*numbers: int) -> Lanes:
    lanes = Lanes()
    lanes.looked(heads(*numbers), 0.0)
    return lanes


def any_lane(_: Lane) -> bool:
    return True


def test_few_lanes_are_chosen_all_and_have_no_end() -> None:
    choice = looked(*range(16)).choose(any_lane, 1)
    assert choice.starts == dict(heads(*range(16)))
    assert choice.until == END


def test_of_many_lanes_those_that_begin_with_the_best_jobs_are_chosen_up_to_the_next() -> None:
    choice = looked(*reversed(range(40))).choose(any_lane, 20)
    assert list(choice.starts) == [lane(number) for number in range(20)]
    assert choice.until == place(20)
    assert len(looked(*range(1_000)).choose(any_lane, 1_000).starts) == MOST


def test_closed_lanes_are_not_chosen() -> None:
    choice = looked(1, 2, 3).choose(lambda each: each != lane(2), 8)
    assert list(choice.starts) == [lane(1), lane(3)]


def test_a_lane_goes_on_at_its_next_job_or_dry_where_its_last_one_stood() -> None:
    lanes = looked(1, 2, 3)
    lanes.claimed(lanes.choose(any_lane, 9), heads(1, 2), [Head(lane(1), place(7))])
    assert lanes.places() == {lane(1): place(7), lane(2): place(2), lane(3): place(3)}
    assert lanes.has_more(any_lane)
    assert not lanes.has_more(lambda each: each != lane(1))
    lanes.claimed(lanes.choose(any_lane, 9), [Head(lane(2), place(9))], [])
    assert lanes.places()[lane(2)] == place(9)
    assert not lanes.has_more(any_lane)


def test_dry_lanes_come_after_the_others_and_end_no_claim() -> None:
    lanes = looked(*range(20))
    following = [Head(lane(number), place(50 + number)) for number in range(10, 16)]
    lanes.claimed(lanes.choose(any_lane, 1), heads(*range(16)), following)
    choice = lanes.choose(any_lane, 1)
    assert list(choice.starts)[:10] == [lane(number) for number in (*range(16, 20), *range(10, 16))]
    assert choice.until == END


def test_jobs_behind_are_claimed_by_their_ids_and_their_lanes_chosen_first() -> None:
    lanes = looked(*range(20))
    job = uuid.uuid4()
    lanes.told(heads(19), {lane(19): [job, END.id]})
    choice = lanes.choose(any_lane, 1)
    assert next(iter(choice.starts)) == lane(19)
    assert choice.behind == [job, END.id]
    lanes.claimed(choice, [Head(lane(19), Place(0, "", job))], [], [job])
    assert lanes.choose(any_lane, 1).behind == [END.id]


def test_a_lane_with_more_behind_than_can_be_told_begins_anew() -> None:
    lanes = looked(5)
    lanes.told([Head(lane(5), place(1))], {lane(5): [uuid.uuid4()] * TOLD})
    assert lanes.places() == {lane(5): place(1)}
    assert lanes.choose(any_lane, 1).behind == []
    lanes.told([Head(lane(5), place(0))], {lane(5): [uuid.uuid4()] * (TOLD - 1)})
    assert lanes.places() == {lane(5): place(1)}


def test_what_is_told_of_new_lanes_is_remembered_and_dry_ones_go_on() -> None:
    lanes = looked(1)
    lanes.claimed(lanes.choose(any_lane, 1), heads(1), [])
    lanes.told(heads(1, 2), {})
    assert lanes.places() == dict(heads(1, 2))
    assert lanes.has_more(lambda each: each == lane(1))


def test_a_look_that_took_long_is_followed_by_a_pause_and_a_short_one_is_not() -> None:
    lanes = Lanes()
    assert lanes.may_look()
    lanes.looked([], 60.0)
    assert not lanes.may_look()
    lanes.looked([], 0.01)
    assert lanes.may_look()


def test_the_further_back_a_lane_begins_the_fewer_of_its_jobs_are_looked_at() -> None:
    assert quotas(1, 256)[0] >= 256
    many = quotas(64, 64)
    assert many[0] == 64
    assert all(sooner >= later for sooner, later in pairwise(many))
    assert sum(many) <= 64 * 8
