"""Principals, authorisation and authentication."""
