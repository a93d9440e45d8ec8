"""The schema is as the migrations made it: the list of its facts, and what differs from it."""

import os
from difflib import unified_diff
from pathlib import Path

from queue_core.check import shape
from tests import schemas

FILE = Path(shape.__file__).with_name(shape.FILE)
owner = schemas.owner


def test_the_file_of_facts_is_what_the_migrations_make(owner):
    """RENEW_SHAPE=1 writes the file anew: read what `git diff` says of it afterwards."""
    owner.execute("SET LOCAL search_path = pg_catalog, pg_temp")
    lines = sorted(str(fact) for fact in shape.facts(owner) if fact.kind != "partition")
    text = "\n".join([*lines, ""])
    if os.environ.get("RENEW_SHAPE"):
        FILE.write_text(text)
    differing = unified_diff(FILE.read_text().splitlines(), lines, lineterm="", n=0)
    assert "\n".join(differing) == ""


def test_every_line_of_the_file_is_read():
    assert len(shape.expected()) == len(FILE.read_text().splitlines())
