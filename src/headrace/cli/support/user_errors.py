"""Expected errors of users as one sentence: missing files, files that are not text, invalid patterns and numbers. Any
other exception is a bug and shows its traceback.
"""

from __future__ import annotations

import re
import struct
from typing import Final

# OSError includes TimeoutError and all file errors. struct.error is a number too large for its field.
EXPECTED: Final = (OSError, UnicodeError, OverflowError, re.error, struct.error)


def sentence(error: BaseException) -> str:
    if isinstance(error, UnicodeDecodeError):
        return f"not UTF-8 text: byte 0x{error.object[error.start]:02x} at position {error.start}"
    if isinstance(error, UnicodeEncodeError):
        return f"{error.object!a} is not UTF-8 text"
    if isinstance(error, re.error):
        return f"invalid regular expression {error.pattern!r}: {error.msg}"
    if isinstance(error, (OverflowError, struct.error)):
        return f"a number is too large: {error}"
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error) or "no answer within the time-out"
