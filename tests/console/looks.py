"""What keeps people out of a page: by axe, its width, and words cut off or over others."""

from collections.abc import Sequence
from typing import Final, Literal

from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Page

WIDTHS = (320, 360, 500, 768, 1_000, 1_440)
WAYS: Final[tuple[tuple[int, Literal["light", "dark"]], ...]] = ((1_440, "light"), (360, "dark"))
BY_COLOUR = ["color-contrast", "link-in-text-block"]
BY_PLACE = ["target-size", "scrollable-region-focusable"]
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
FEW = {"resultTypes": ["violations"], "preload": False}
ASKED = ({**FEW, "runOnly": TAGS}, {**FEW, "runOnly": [*BY_COLOUR, *BY_PLACE]})
ASK = """
async rules => (await axe.run(rules)).violations.map(each => `${each.id}: ${each.nodes[0].target}`)
"""
ALIKE = """
hidden => {
    const seen = new Set();
    for (const row of document.querySelectorAll("tbody tr")) {
        const like = [row, ...row.querySelectorAll("*")];
        const made = like.map(each => `${each.tagName} ${each.getAttribute("class")}`);
        const kind = `${row.rowIndex % 2} ${made}`;
        if (seen.has(kind)) row.style.setProperty("display", hidden ? "none" : "", "important");
        seen.add(kind);
    }
}
"""
"""Rows that differ by their words alone have the same colours, but for every second one."""
OPEN = "for (const each of document.querySelectorAll('details')) each.open = true"


def faults(page: Page) -> dict[tuple[int, str], list[str]]:
    """Return what axe has against a page, on a desk in the light and on a phone in the dark.

    What differs by width is where things stand, and by scheme which colours they have: no more
    is asked the second time. Of rows of a kind two are looked at.
    """
    page.evaluate(OPEN)
    page.evaluate(AXE_SCRIPT)
    page.evaluate(ALIKE, True)
    found = {}
    for (width, scheme), asked in zip(WAYS, ASKED, strict=True):
        page.set_viewport_size({"width": width, "height": 800})
        page.emulate_media(color_scheme=scheme)
        found[width, scheme] = page.evaluate(ASK, asked)
    page.evaluate(ALIKE, False)
    return {way: each for way, each in found.items() if each}


def too_wide(page: Page) -> dict[int, int]:
    """Return the widths of window that a page is wider than, and how wide it is there."""
    found = {}
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 800})
        found[width] = page.evaluate("document.scrollingElement.scrollWidth")
    return {width: wide for width, wide in found.items() if wide > width}


def cramped(page: Page, widths: Sequence[int], text: int = 15) -> dict[int, list[str]]:
    """Return what is cut off or lies over others in windows so wide, with text of `text` pixels."""
    page.evaluate(OPEN)
    page.evaluate("pixels => (document.documentElement.style.fontSize = `${pixels}px`)", text)
    found = {}
    for width in widths:
        page.set_viewport_size({"width": width, "height": 800})
        found[width] = page.evaluate(CRAMPED)
    return {width: each for width, each in found.items() if each}


CRAMPED = """
() => {
    const wrong = new Set(), lines = [], known = new Map();
    const wide = document.scrollingElement.scrollWidth - innerWidth;
    if (wide > 0) wrong.add(`the page is ${wide} pixels too wide`);
    const words = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (words.nextNode()) {
        const text = words.currentNode.data.trim();
        const element = words.currentNode.parentElement;
        if (!text || !element.checkVisibility() || frames(element).unseen) continue;
        const range = document.createRange();
        range.selectNodeContents(words.currentNode);
        for (const line of range.getClientRects()) {
            let { left, right, top, bottom } = line;
            for (const { scrolls, box } of frames(element).boxes) {
                if (!scrolls && (left < box.left - 1 || right > box.right + 1)) {
                    wrong.add(`cut off: ${text}`);
                }
                left = Math.max(left, box.left), right = Math.min(right, box.right);
                top = Math.max(top, box.top), bottom = Math.min(bottom, box.bottom);
            }
            const seen = right - left > 1 && bottom - top > 1;
            if (seen) lines.push({ left, right, top, bottom, text, element });
        }
    }
    lines.forEach((one, at) => {
        for (let next = at + 1; next < lines.length; next++) {
            const other = lines[next];
            if (one.element !== other.element && overlap(one, other)) {
                wrong.add(`lies over others: ${one.text} / ${other.text}`);
            }
        }
    });
    return [...wrong];

    // What an element is seen through: what clips or scrolls it, or hides it from the eye.
    function frames(element) {
        if (element === document.body) return { unseen: false, boxes: [] };
        if (!known.has(element)) {
            const { unseen, boxes } = frames(element.parentElement);
            const { clipPath, overflowX } = getComputedStyle(element);
            const own = { scrolls: overflowX === "auto", box: element.getBoundingClientRect() };
            known.set(element, {
                unseen: unseen || clipPath !== "none",
                boxes: overflowX === "visible" ? boxes : [...boxes, own],
            });
        }
        return known.get(element);
    }
    function overlap(one, other) {
        const across = Math.min(one.right, other.right) - Math.max(one.left, other.left);
        const down = Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top);
        const least = Math.min(one.bottom - one.top, other.bottom - other.top);
        return across > 2 && down > least / 3;
    }
}
"""
