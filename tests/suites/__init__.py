"""Other people's test suites, fetched and run against Headrace; FINDINGS.md says what is left out and why."""
