"""Code shared by tests: seeded entropy, tests of distributions, oracles, and project files."""
