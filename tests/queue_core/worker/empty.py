"""A module without jobs."""
