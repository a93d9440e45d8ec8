"""The address of every route, with something that is there in each of its places."""

import re
from collections.abc import Iterator

from flask import Flask
from werkzeug.routing import Rule

from tests.console.scenes import Scene

PLACE = re.compile(r"<(?:\w+:)?(\w+)>")


def filled(rule: Rule, scene: Scene, **places: str) -> str:
    """Return a route's address; what `places` does not say is there in the scene."""
    held = {"job_id": str(scene.failed), "filename": "console.css", "act_id": "1"}
    held |= {"bulk_id": str(scene.bulk)}
    held |= {"worker_id": str(scene.lost_worker), **places}
    return PLACE.sub(lambda place: held[place[1]], rule.rule)


NAMED = {
    "queues.show": "name=mail",
    "schedules.show": "name=nightly_report",
    "handlers.show": "name=charge_card",
    "operators.one": "code=ops:alice",
}
"""What pages on something with a name are asked for beside their address."""


def with_value(rule: Rule, value: str) -> str:
    """Return a route's address with one value in each of its places."""
    return PLACE.sub(lambda _: value, rule.rule)


def every(app: Flask, scene: Scene, method: str) -> Iterator[str]:
    """Yield every address that takes `method`."""
    for rule in app.url_map.iter_rules():
        if method in (rule.methods or ()):
            yield filled(rule, scene)


def asked_for(app: Flask, scene: Scene) -> Iterator[str]:
    """Yield every page's address, with what it is asked beside it."""
    for rule in app.url_map.iter_rules():
        if "GET" in (rule.methods or ()):
            named = NAMED.get(rule.endpoint)
            yield filled(rule, scene) + (f"?{named}" if named else "")
