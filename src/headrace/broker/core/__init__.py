"""Decisions of a broker's start: `ownership` (may it serve these directories with this store)."""
