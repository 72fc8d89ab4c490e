"""Modules that several test folders share."""
