"""Transitions: one verb per module, one statement per verb; none commits."""
