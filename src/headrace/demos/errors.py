"""What stops a demo, in one sentence."""


class DemoFailed(Exception):
    """A service or a program that the demo needs failed or is missing."""
