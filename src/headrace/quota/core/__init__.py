"""Pure arithmetic of quotas: `entities` (which quota applies), `rate` (over samples), `token_bucket`."""
