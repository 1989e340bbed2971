"""Ed25519 keys of owners: created next to the ledger, used to sign release records."""

import base64
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from confide.errors import BadDeclaration, Refusal
from confide.lazy import lazy_module

if TYPE_CHECKING:
    from cryptography import exceptions
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ed25519
else:
    exceptions = lazy_module("cryptography.exceptions")
    serialization = lazy_module("cryptography.hazmat.primitives.serialization")
    ed25519 = lazy_module("cryptography.hazmat.primitives.asymmetric.ed25519")

__all__ = ["RecordMismatch", "SigningKey", "check_signature", "create_key", "read_key"]

ALGORITHM: Final = "Ed25519"
SIGNATURE: Final = "signature"
KEY_MODE: Final = 0o600
OTHERS: Final = 0o077
"""The permission bits of everyone but the owner of a file."""


class RecordMismatch(Refusal):
    """A release record is not what its owner signed, or does not match the exported ledger."""

    code = "record-mismatch"


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A private key in a file."""

    path: Path
    private: "ed25519.Ed25519PrivateKey"

    @property
    def public(self) -> str:
        """The public key, in base64."""
        return _encode(self.private.public_key().public_bytes_raw())

    def sign(self, document: dict[str, Any]) -> dict[str, Any]:
        """Return a document with its signature, which covers everything else in it."""
        value = _encode(self.private.sign(_canonical_bytes(document)))
        signature = {"algorithm": ALGORITHM, "public_key": self.public, "value": value}
        return {**document, SIGNATURE: signature}


def create_key(path: Path) -> SigningKey:
    """Return a new key, stored in a file that only its owner can read; never overwrite a file.

    Raises:
        BadDeclaration: the file cannot be written.
    """
    private = ed25519.Ed25519PrivateKey.generate()
    written = private.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    try:
        # Privacy: create the file with its mode, so that other users can never read it.
        file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, KEY_MODE)
        with os.fdopen(file, "wb") as opened:
            opened.write(written)
    except FileExistsError:
        raise BadDeclaration(
            f"{path} already exists. Records signed with another key look like those of another "
            "owner, so keep this one."
        ) from None
    except OSError as error:
        raise BadDeclaration(
            f"The signing key {path} cannot be written ({error.strerror}). Make its folder "
            "writable."
        ) from error
    return SigningKey(path, private)


def read_key(path: Path) -> SigningKey:
    """Return the key in a file.

    Raises:
        BadDeclaration: the file is missing, does not contain a key, or others can read it.
    """
    try:
        content, mode = path.read_bytes(), path.stat().st_mode
    except OSError as error:
        raise BadDeclaration(
            f"The signing key {path} cannot be read ({error.strerror}). Restore it from a backup, "
            "or run `confide record --new-key`."
        ) from error
    if mode & OTHERS:
        raise BadDeclaration(
            f"Other users can read the signing key {path}. Run `chmod 600 {path}`, or delete the "
            "file and run `confide record --new-key`."
        )
    try:
        private = serialization.load_pem_private_key(content, password=None)
    except (ValueError, TypeError):
        private = None
    if not isinstance(private, ed25519.Ed25519PrivateKey):
        raise BadDeclaration(f"{path} is not an {ALGORITHM} key. Restore it from a backup.")
    return SigningKey(path, private)


def check_signature(document: dict[str, Any]) -> str:
    """Return the public key that signed a document.

    Raises:
        RecordMismatch: the signature is missing or does not match the document.
    """
    rest = {name: value for name, value in document.items() if name != SIGNATURE}
    try:
        given = document[SIGNATURE]
        public, value = _read_signature(given)
        ed25519.Ed25519PublicKey.from_public_bytes(public).verify(value, _canonical_bytes(rest))
    except (KeyError, TypeError, ValueError, exceptions.InvalidSignature):
        raise RecordMismatch(
            "The signature does not match the record. Get the file from its owner again."
        ) from None
    return str(given["public_key"])


def _read_signature(given: dict[str, str]) -> tuple[bytes, bytes]:
    """Return the public key and the value of a signature; raise an error if it has more parts.

    Why: the signature does not cover itself, so readers may trust nothing else in it.
    """
    if given != {name: given[name] for name in ("algorithm", "public_key", "value")}:
        raise ValueError("unknown part")
    if given["algorithm"] != ALGORITHM:
        raise ValueError("unknown algorithm")
    return _decode(given["public_key"]), _decode(given["value"])


def _canonical_bytes(document: dict[str, Any]) -> bytes:
    """Return a document as JSON in a unique form: sorted names, no spaces, ASCII only."""
    written = json.dumps(
        document, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False
    )
    return written.encode("ascii")


def _encode(raw: bytes) -> str:
    return base64.b64encode(raw).decode("ascii")


def _decode(text: str) -> bytes:
    return base64.b64decode(text, validate=True)
