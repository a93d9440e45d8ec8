"""The lines to the children, as the main thread's selector watches them."""

import selectors

from queue_core.worker.children import Child


class Lines:
    """What the main thread's selector is asked to tell of each child's line."""

    def __init__(self, selector: selectors.BaseSelector) -> None:
        self._selector = selector
        self._asked: dict[Child, int] = {}

    def watch(self, child: Child) -> None:
        """Ask anew, after something was said to a child or heard of it."""
        events = selectors.EVENT_READ * (not child.hung_up)
        events |= selectors.EVENT_WRITE * child.has_unsent
        before = self._asked.get(child, 0)
        if events == before:
            return
        self._asked[child] = events
        if before and events:
            self._selector.modify(child.line, events, child)
        elif before:
            self._selector.unregister(child.line)
        else:
            self._selector.register(child.line, events, child)

    def forget(self, child: Child) -> None:
        """Ask no more, before its line is closed."""
        if self._asked.pop(child, 0):
            self._selector.unregister(child.line)
