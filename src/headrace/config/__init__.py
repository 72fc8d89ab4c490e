"""Configuration: one declaration per key; parsing, inheritance, validation and documentation are derived."""
