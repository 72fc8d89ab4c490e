"""Groups and transactions as state machines over their own compacted topics; `runtime` drives them."""
