"""Arithmetic of quotas, pure: `entities` (which quota applies), `rate` (over samples), `token_bucket`."""
