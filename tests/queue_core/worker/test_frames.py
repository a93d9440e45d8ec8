"""Frames: what is sent arrives, in whatever pieces, and nothing else is taken for a frame."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queue_core.worker import frames
from queue_core.worker.frames import FrameError, Frames, encode

LIMIT = 10_000


def test_what_is_sent_arrives_in_order():
    sent = [{"kind": "job", "n": n, "text": "häß\ud800\0"} for n in range(3)]
    assert Frames(LIMIT).feed(b"".join(encode(each, LIMIT) for each in sent)) == sent


@given(cuts=st.lists(st.integers(0, 200), max_size=20))
def test_a_stream_cut_anywhere_gives_the_same_frames(cuts):
    sent = [{"a": "x" * 30}, {}, {"b": [1, 2, {"c": None}]}]
    stream = b"".join(encode(each, LIMIT) for each in sent)
    edges = sorted({0, len(stream), *(min(cut, len(stream)) for cut in cuts)})
    reader = Frames(LIMIT)
    pieces = [stream[a:b] for a, b in itertools.pairwise(edges)]
    assert [frame for piece in pieces for frame in reader.feed(piece)] == sent


def test_half_a_frame_is_none_yet():
    stream = encode({"a": 1}, LIMIT)
    reader = Frames(LIMIT)
    assert reader.feed(stream[:-1]) == []
    assert reader.feed(stream[-1:]) == [{"a": 1}]


def test_a_frame_over_the_limit_is_not_even_waited_for():
    with pytest.raises(FrameError):
        Frames(LIMIT).feed((LIMIT + 1).to_bytes(4, "big"))


def test_a_frame_over_the_limit_is_not_sent():
    with pytest.raises(FrameError):
        encode({"text": "x" * LIMIT}, LIMIT)


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[1]", b"null", b'{"a":' + b"[" * 5_000, b"\xff\xfe", b"1" * 5_000],
    ids=["nothing", "half", "list", "null", "deep", "no text", "digits"],
)
def test_a_body_that_is_no_object_is_refused(body):
    with pytest.raises(FrameError):
        Frames(LIMIT).feed(len(body).to_bytes(4, "big") + body)


def test_the_largest_arguments_of_a_job_fit_a_frame():
    text = "\U0001f600" * (256 * 1024 // 4)
    assert len(encode({"args": text}, frames.LARGEST_TO_CHILD)) > len(text)
