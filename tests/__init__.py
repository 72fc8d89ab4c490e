"""Tests; a package so that shared pieces can be imported by name."""
