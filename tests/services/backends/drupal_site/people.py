"""Who calls: user name and password, or the bearer token of a stub OAuth server.

`admin` may do everything, `api` nothing (with jsonrpc_mcp: read content), `editor` reads some content.
"""

import base64
import binascii
from dataclasses import dataclass
from enum import Enum

SCOPES = frozenset({"tutorial:read", "tutorial:search"})
CONTENT = frozenset({"access content", "view article bodies"})


@dataclass(frozen=True)
class Account:
    """`permissions` None is Drupal's user 1: everything."""

    name: str
    permissions: frozenset[str] | None
    scopes: frozenset[str] = SCOPES
    by_bearer: bool = False

    def may(self, permission: str) -> bool:
        return self.permissions is None or permission in self.permissions


class Refused(Enum):
    """No account. Drupal tells a wrong password from no credentials that it knows."""

    NO_CREDENTIALS = 401
    WRONG_PASSWORD = 403


def accounts(*, mcp: bool) -> dict[str, Account]:
    """Every account by name; the site with jsonrpc_mcp lets `api` read content, as the captured one."""
    return {
        "admin": Account("admin", None),
        "api": Account("api", CONTENT if mcp else frozenset(), frozenset({"tutorial:read"})),
        "editor": Account("editor", frozenset({"access content"})),
    }


def authenticate(authorization: str, known: dict[str, Account]) -> Account | Refused:
    """`Basic name:name` or `Bearer tok-name`."""
    scheme, _, credentials = authorization.partition(" ")
    if scheme.lower() == "basic":
        try:
            name, _, password = base64.b64decode(credentials).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            return Refused.WRONG_PASSWORD
        return known[name] if name in known and name == password else Refused.WRONG_PASSWORD
    account = known.get(credentials.strip().removeprefix("tok-"))
    if scheme.lower() == "bearer" and account and credentials.strip().startswith("tok-"):
        return Account(account.name, account.permissions, account.scopes, by_bearer=True)
    return Refused.NO_CREDENTIALS
