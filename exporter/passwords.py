"""Basic-auth passwords under bcrypt, as Prometheus's web configuration has them."""

from __future__ import annotations

import ctypes
import ctypes.util
import hashlib
import hmac
import os
import secrets
from typing import Any

from exporter.errors import ConfigError


class PasswordChecker:
    """Checks basic-auth credentials; one that was right once is known again without bcrypt's long work."""

    def __init__(self, users: dict[str, str]) -> None:
        self._users = users
        self._key = secrets.token_bytes(32)
        self._proven: dict[str, bytes] = {}
        if users:
            self._crypt = _bcrypt_function()

    def known(self, user: str, password: str) -> bool:
        """Whether the credentials were found right before; quick."""
        proven = self._proven.get(user)
        return proven is not None and hmac.compare_digest(proven, self._digest(user, password))

    def check(self, user: str, password: str) -> bool:
        """Whether the credentials are right; takes a tenth of a second, so call it off the event loop."""
        # An unknown user costs the same time as a known one.
        hashed = self._users.get(user) or next(iter(self._users.values()))
        right = hmac.compare_digest(self._crypt(password.encode(), hashed.encode()), hashed.encode())
        if right and user in self._users:
            self._proven[user] = self._digest(user, password)
            return True
        return False

    def _digest(self, user: str, password: str) -> bytes:
        return hmac.new(self._key, f"{user}\0{password}".encode(), hashlib.sha256).digest()


def _bcrypt_function() -> Any:
    """The bcrypt of the package of that name, else from the system's libcrypt (libxcrypt has it)."""
    try:
        import bcrypt  # type: ignore[import-not-found,unused-ignore]  # noqa: PLC0415
    except ImportError:
        name = ctypes.util.find_library("crypt") or "libcrypt.so.1"
    else:
        return bcrypt.hashpw
    try:
        library = ctypes.CDLL(name, use_errno=True)
    except OSError as error:
        raise ConfigError("basic_auth_users", f"bcrypt is not there ({error})", "pip install bcrypt") from error
    library.crypt_r.restype = ctypes.c_char_p

    def crypt(password: bytes, salt: bytes) -> bytes:
        # libxcrypt's crypt_data is 32 KiB; zeroed memory is its initial state.
        scratch = ctypes.create_string_buffer(1 << 17)
        return library.crypt_r(password, salt, scratch) or os.urandom(8)  # a refused salt matches nothing

    probe = b"$2b$04$abcdefghijklmnopqrstuu"
    if not crypt(b"probe", probe).startswith(probe[:7]):
        raise ConfigError("basic_auth_users", "this system's libcrypt has no bcrypt", "pip install bcrypt")
    return crypt
