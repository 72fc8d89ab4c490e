"""Test suites of third-party clients, run against Headrace. FINDINGS.md lists the tests that are left out, with
reasons.
"""
