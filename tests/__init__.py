"""Tests. A package, so that tests can import shared modules by name."""
