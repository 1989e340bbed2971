"""What several test files share: seeded entropy, tests of laws, the oracles, the documents."""
