"""Who calls: user name and password, or the bearer token of a stub OAuth server.

`admin` may do everything, `api` nothing (with jsonrpc_mcp: read content), `editor` reads some content.
A site that trusts an authorization server takes its access tokens as well, whose subject is the name of a user.
"""

import base64
import binascii
from dataclasses import dataclass
from enum import Enum

import jwt

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


@dataclass(frozen=True)
class Trusted:
    """The keys of an authorization server, and the audience that its tokens must be for here."""

    keys: jwt.PyJWKClient
    audience: str

    def subject(self, token: str) -> str | None:
        """Whose token it is; None where it does not count."""
        try:
            key = self.keys.get_signing_key_from_jwt(token)
            claims = jwt.decode(token, key, algorithms=["RS256", "ES256"], audience=self.audience)
        except jwt.PyJWTError:
            return None
        return str(claims["sub"])


def accounts(*, mcp: bool) -> dict[str, Account]:
    """Every account by name; the site with jsonrpc_mcp lets `api` read content, as the captured one."""
    return {
        "admin": Account("admin", None),
        "api": Account("api", CONTENT if mcp else frozenset(), frozenset({"tutorial:read"})),
        "editor": Account("editor", frozenset({"access content"})),
    }


def authenticate(authorization: str, known: dict[str, Account], trusted: Trusted | None = None) -> Account | Refused:
    """`Basic name:name`, `Bearer tok-name`, or the access token of a server that is trusted."""
    scheme, _, credentials = authorization.partition(" ")
    if scheme.lower() == "basic":
        try:
            user, _, password = base64.b64decode(credentials).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            return Refused.WRONG_PASSWORD
        return known[user] if user in known and user == password else Refused.WRONG_PASSWORD
    if scheme.lower() != "bearer":
        return Refused.NO_CREDENTIALS
    token = credentials.strip()
    name = token.removeprefix("tok-") if token.startswith("tok-") else trusted and trusted.subject(token)
    account = known.get(name or "")
    if account is None:
        return Refused.NO_CREDENTIALS
    return Account(account.name, account.permissions, account.scopes, by_bearer=True)
