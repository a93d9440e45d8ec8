"""What `bin/screenshots` pictures: every page, in every state that looks different."""

import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import product
from typing import Final, Literal
from uuid import UUID

from playwright.sync_api import Page

from queue_core import Registry, enqueue, retry
from tests.console import scenes
from tests.console.shop import BELIEVABLE, NAUGHTY, Conn, Order, Shop, declared

Scheme = Literal["light", "dark"]
Go = Callable[[Page, str], object]
WIDTHS: Final = (360, 1440)
SCHEMES: Final[tuple[Scheme, ...]] = ("light", "dark")
TWO: Final[tuple[tuple[int, Scheme], ...]] = ((1440, "light"), (360, "dark"))


@dataclass(frozen=True)
class Look:
    """One page in one state: how to get there, and as whom (None: nobody)."""

    name: str
    go: Go
    code: str | None = "ops:alice"
    in_all: bool = False
    """Pictured in every size and scheme, not in two."""
    narrow: bool = True
    """On a phone, too."""
    script: bool = False
    """With the browser's scripts: pages are pictured without them."""
    whole: bool = True
    """To its end, not only what a window shows of it."""

    def ways(self) -> Iterable[tuple[int, Scheme]]:
        """Return the sizes and schemes to picture it in."""
        if self.in_all:
            return product(WIDTHS, SCHEMES)
        return TWO[: 2 if self.narrow else 1]


def all_looks(scene: scenes.Scene, owner: Conn) -> list[Look]:
    """Name every page and state; those that change what others show come last."""
    at = opened
    return [
        Look("sign-in", at("/sign-in"), None),
        Look("sign-in-refused", refused, None, narrow=False),
        Look("overview", at("/"), in_all=True),
        Look("jobs-review", at("/jobs/?state=needs_review")),
        Look("jobs-ready", at("/jobs/?state=ready"), narrow=False),
        Look("jobs-waiting", at("/jobs/?state=waiting")),
        Look("jobs-running", at("/jobs/?state=running"), narrow=False),
        Look("jobs-completed", at("/jobs/?state=completed&queue=media"), whole=False),
        Look("jobs-failed", at("/jobs/?state=failed"), in_all=True),
        Look("jobs-cancelled", at("/jobs/?state=cancelled"), narrow=False),
        Look("jobs-filtered", filtered),
        Look("jobs-wrong-filter", at("/jobs/?state=failed&from=yesterday"), narrow=False),
        Look("jobs-nothing", at("/jobs/?state=blocked"), narrow=False),
        Look("jobs-nothing-matches", at("/jobs/?state=failed&queue=nowhere")),
        Look("jobs-cut-off", at("/jobs/?state=completed&name=sync_stock")),
        Look("jobs-too-slow", held(owner, "jobs", "/jobs/?state=failed"), narrow=False),
        Look("jobs-ticked", at("/jobs/?state=failed&queue=mail&tick=all")),
        Look("chosen", chosen("failed")),
        Look("chosen-review", chosen("needs_review")),
        Look("chosen-done", at(f"/jobs/chosen/{scene.bulk}")),
        Look("review", at("/review/"), in_all=True),
        Look("review-uncertain", at("/review/?list=uncertain")),
        Look("review-viewer", at("/review/"), "ops:viola", narrow=False),
        Look("job-review", at(f"/jobs/{scene.review}?next=/review/"), in_all=True),
        Look("job-release", at(f"/jobs/{scene.review}?form=release&next=/review/")),
        Look("job-confirm", at(f"/jobs/{scene.review}?form=confirm&next=/review/"), narrow=False),
        Look("job-take", at(f"/jobs/{scene.review}?form=assign&next=/review/")),
        Look("job-crashed", at(f"/jobs/{scene.crashed}?next=/review/")),
        Look("job-disputed", at(f"/jobs/{scene.disputed}?next=/review/")),
        Look("job-unreadable", at(f"/jobs/{scene.unreadable}?next=/review/"), narrow=False),
        Look("job-failed", at(f"/jobs/{scene.told}?next=/jobs/"), in_all=True),
        Look("job-traceback", traced(scene.told), narrow=False),
        Look("job-running", at(f"/jobs/{scene.stopping}")),
        Look("job-cancel", at(f"/jobs/{scene.running}"), narrow=False),
        Look("job-retrying", at(f"/jobs/{scene.retrying}")),
        Look("job-ready", at(f"/jobs/{scene.ready}"), narrow=False),
        Look("job-completed", at(f"/jobs/{scene.completed}"), narrow=False),
        Look("job-cancelled", at(f"/jobs/{scene.cancelled}"), narrow=False),
        Look("job-deleted", at(f"/jobs/{scene.purged}")),
        Look("job-viewer", at(f"/jobs/{scene.told}"), "ops:viola"),
        Look("interrupted", interrupted(scene.told)),
        Look("ledger", at("/acts/"), in_all=True),
        Look("ledger-filtered", at("/acts/?by=ops:bob&since=2026-01-01")),
        Look("ledger-nothing", at("/acts/?by=ops:nobody"), narrow=False),
        Look("act", at("/acts/7")),
        Look("handover", at("/acts/handover")),
        Look("handover-printed", printed("/acts/handover"), narrow=False),
        Look("queues", at("/queues/")),
        Look("queue", at("/queues/show?name=mail")),
        Look("queue-paused", at("/queues/show?name=reports")),
        Look("schedules", at("/schedules/")),
        Look("schedules-archived", at("/schedules/?archived=yes"), narrow=False),
        Look("schedule", at("/schedules/show?name=stock-check")),
        Look("schedule-paused", at("/schedules/show?name=nightly-report")),
        Look("schedule-archived", at("/schedules/show?name=old-cleanup"), narrow=False),
        Look("handlers", at("/handlers/")),
        Look("handler", at("/handlers/show?name=charge_card")),
        Look("handler-unknown", at("/handlers/show?name=send_newsletter"), narrow=False),
        Look("workers", at("/workers/")),
        Look("workers-lost", at("/workers/?fate=lost")),
        Look("workers-stopped", at("/workers/?fate=stopped"), narrow=False),
        Look("worker-lost", at(f"/workers/{scene.lost_worker}")),
        Look("worker-live", at(f"/workers/{scene.worker}")),
        Look("worker-draining", at(f"/workers/{scene.draining_worker}"), narrow=False),
        Look("operators", at("/operators/"), "ops:root"),
        Look("operator", at("/operators/one?code=ops:bob"), "ops:root"),
        Look("account", at("/account/")),
        Look("keys", keys, script=True),
        Look("not-found", at("/jobs/00000000-0000-0000-0000-000000000000")),
        Look("forbidden", at("/operators/"), "ops:viola", narrow=False),
        Look("too-slow", held(owner, "ended", "/"), narrow=False),
        Look("operator-added", added, "ops:root"),
        Look("job-revealed", revealed(scene.review)),
        Look("job-moved-on", moved_on(scene.spare[:2], owner)),
        Look("chosen-moved-on", left_alone(scene.spare[2:6], owner)),
        Look("jobs-retried", retried(scene.failed), narrow=False),
        Look("handlers-unhandled", unhandled(owner)),
        Look("job-hostile", hostile(owner)),
        Look("handler-hostile", at_name("/handlers/show", NAUGHTY), narrow=False),
    ]


def keys(page: Page, base: str) -> None:
    """List the shortcuts."""
    page.goto(f"{base}/review/")
    page.keyboard.press("?")
    page.get_by_role("heading", name="Keyboard shortcuts").wait_for()


def opened(path: str) -> Go:
    """Open an address."""
    return lambda page, base: page.goto(base + path)


def at_name(path: str, name: str) -> Go:
    """Open the page of a name that no address holds as it is."""

    def go(page: Page, base: str) -> None:
        page.goto(f"{base}/handlers/")
        page.get_by_role("link", name=name).click()
        assert path in page.url

    return go


def printed(path: str) -> Go:
    """Open an address as it comes out of a printer."""

    def go(page: Page, base: str) -> None:
        page.emulate_media(media="print")
        page.goto(base + path)

    return go


def held(owner: Conn, table: str, path: str) -> Go:
    """Open a page while what it reads cannot be read."""

    def go(page: Page, base: str) -> None:
        with owner.transaction():
            owner.execute(f"LOCK TABLE countersign.{table} IN ACCESS EXCLUSIVE MODE".encode())
            page.goto(base + path)

    return go


def refused(page: Page, base: str) -> None:
    """Mistype a password."""
    page.goto(f"{base}/sign-in")
    page.get_by_label("Operator code").fill("ops:alice")
    page.get_by_label("Password").fill("wrong horse battery")
    page.get_by_role("button", name="Sign in").click()


def filtered(page: Page, base: str) -> None:
    """Look at the filters opened, with some in force."""
    page.goto(f"{base}/jobs/?state=failed&queue=mail&not_error_type=ValueError")
    page.get_by_text("More filters").click()


def added(page: Page, base: str) -> None:
    """Add somebody new, and see their password this once."""
    page.goto(f"{base}/operators/")
    page.get_by_label("Their code").fill(f"ops:carol-{secrets.token_hex(2)}")
    page.get_by_label("Reason").fill("new_colleague")
    page.get_by_role("button", name="Add this operator").click()


def chosen(state: str) -> Go:
    """Choose all on a page."""

    def go(page: Page, base: str) -> None:
        page.goto(f"{base}/jobs/?state={state}&tick=all")
        page.get_by_role("button", name="Act on the chosen").first.click()
        if state == "needs_review":
            page.get_by_text("Release: run them again").first.click()

    return go


def traced(job: UUID) -> Go:
    """Open the traceback of a run."""

    def go(page: Page, base: str) -> None:
        page.goto(f"{base}/jobs/{job}")
        page.get_by_text("Traceback").first.click()

    return go


def left_alone(spare: tuple[UUID, ...], owner: Conn) -> Go:
    """Retry two of which somebody else was faster with one."""
    pairs = iter(zip(spare[::2], spare[1::2], strict=True))

    def go(page: Page, base: str) -> None:
        mine, theirs = next(pairs)
        page.goto(f"{base}/jobs/?state=failed&queue=mail")
        for job in (mine, theirs):
            page.locator(f"#tick-{job}").check()
        page.get_by_role("button", name="Act on the chosen").first.click()
        retry(owner, [theirs], by="ops:bob", reason="deploy_error", via=scenes.VIA)
        page.get_by_label("Reason").fill("provider_outage")
        page.get_by_role("button", name="Retry each once more").click()

    return go


def moved_on(spare: tuple[UUID, ...], owner: Conn) -> Go:
    """Press the button a moment after somebody else did."""
    jobs = iter(spare)

    def go(page: Page, base: str) -> None:
        job = next(jobs)
        page.goto(f"{base}/jobs/{job}")
        retry(owner, [job], by="ops:bob", reason="deploy_error", via=scenes.VIA)
        page.get_by_label("Reason").fill("provider_outage")
        page.get_by_label("Note").fill("They said it is mended.")
        page.get_by_role("button", name="Retry once more").click()

    return go


def retried(job: UUID) -> Go:
    """Retry one and be back on the list, which says so; then it is there to look at again."""

    def go(page: Page, base: str) -> None:
        page.goto(f"{base}/jobs/{job}?next=/jobs/%3Fstate=failed")
        verb, reason = ("Retry once more", "data_mended")
        if page.get_by_role("button", name="Cancel: never run it").count():
            verb, reason = ("Cancel: never run it", "no_longer_needed")
        page.get_by_label("Reason").fill(reason)
        page.get_by_role("button", name=verb).click()

    return go


def unhandled(owner: Conn) -> Go:
    """Let jobs be ready that no worker handles."""

    def go(page: Page, base: str) -> None:
        jobs = Registry()
        jobs.declare("send_newsletter", schema=Order)
        enqueue(owner, "send_newsletter", BELIEVABLE, queue="mail")
        page.goto(f"{base}/handlers/")

    return go


def hostile(owner: Conn) -> Go:
    """Look at a job that means ill."""
    made: list[UUID] = []
    jobs = declared()

    def go(page: Page, base: str) -> None:
        assert jobs
        made.extend([] if made else [scenes.add_hostile(Shop(owner, host="pay-4", pid=310))])
        page.goto(f"{base}/jobs/{made[0]}")

    return go


def revealed(job: UUID) -> Go:
    """Sign for the arguments of a job."""

    def go(page: Page, base: str) -> None:
        page.goto(f"{base}/jobs/{job}?form=reveal")
        page.locator("#reveal-reason").fill("looking_for_the_cause")
        page.get_by_role("button", name="Reveal the arguments").click()

    return go


def interrupted(job: UUID) -> Go:
    """Press the button after the session was over."""

    def go(page: Page, base: str) -> None:
        page.goto(f"{base}/jobs/{job}")
        page.get_by_label("Reason").fill("provider_outage")
        page.context.clear_cookies()
        page.get_by_role("button", name="Retry once more").click()

    return go
