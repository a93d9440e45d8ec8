"""Pages of a list are named by the row before or after them."""

from datetime import UTC, datetime
from uuid import UUID

import pytest

from console.pagination import Place, PlaceError, beside, place
from queue_core.queries.jobs import Cursor, Page

CURSOR = Cursor(datetime(2026, 11, 29, tzinfo=UTC), UUID(int=7))


def test_a_place_comes_back_as_it_was_written():
    links = beside(Page([], CURSOR, CURSOR))
    assert place(links["next"]) == Place(CURSOR, "next")
    assert place(links["previous"]) == Place(CURSOR, "previous")


def test_without_a_place_a_list_begins_at_its_top():
    assert place({}) == place({"after": "", "before": ""}) == Place(None, "next")


def test_where_a_list_ends_there_is_no_link():
    assert beside(Page([], None, None)) == {}


@pytest.mark.parametrize(
    "arguments",
    [
        {"after": "x"},
        {"before": "-"},
        {"after": "1_2"},
        {"after": CURSOR.encode(), "before": CURSOR.encode()},
    ],
)
def test_what_names_no_place_is_refused(arguments):
    with pytest.raises(PlaceError):
        place(arguments)
