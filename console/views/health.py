"""Whether this process lives, and whether it can serve."""

from typing import Any

from flask import Blueprint

from console import database
from queue_core import check
from queue_core.errors import CountersignError, SchemaError

pages = Blueprint("health", __name__)

Answer = tuple[dict[str, Any], int]


@pages.get("/healthz")
def alive() -> Answer:
    """Answer as long as the process does, whatever the database does."""
    return {"ok": True}, 200


@pages.get("/readyz")
def ready() -> Answer:
    """Answer 200 where the database is there, of this version, with the ledger's triggers.

    Little more than that, since anybody may ask: `flask queue check` says what is wrong.
    """
    try:
        with database.reading() as conn:
            check.require_sound(conn)
            warned = sorted({problem.code for problem in check.warnings(conn)})
    except SchemaError:
        return {"ok": False, "problem": "the schema is not sound"}, 503
    except CountersignError:
        return {"ok": False, "problem": "the database does not answer"}, 503
    return {"ok": True, "warnings": warned}, 200
