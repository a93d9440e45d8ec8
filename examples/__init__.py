"""Examples that run: each a package with a registry of jobs, and a page that explains it."""
