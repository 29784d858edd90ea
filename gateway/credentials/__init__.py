"""What the gateway shows the backend on behalf of a caller."""

from __future__ import annotations

from gateway.credentials.contract import Credential
from gateway.credentials.exchange import TokenExchange
from gateway.credentials.grants import TokenClient
from gateway.credentials.own import ClientCredentials
from gateway.credentials.plain import NoCredential, SameResource, StaticCredential
from gateway.settings import Credentials

__all__ = ["Credential", "credential_of"]


def credential_of(settings: Credentials, tokens: TokenClient, fallback: Credential) -> Credential:
    """The credential that settings name; ``fallback`` is what ``auto`` stands for, ``tokens`` where tokens are had."""
    match settings.mode:
        case "auto":
            return fallback
        case "same_resource":
            return SameResource()
        case "token_exchange":
            return TokenExchange(tokens)
        case "client_credentials":
            return ClientCredentials(tokens)
        case "static":
            return StaticCredential(settings.header, settings.value.get_secret_value() if settings.value else "")
        case "none":
            return NoCredential()
