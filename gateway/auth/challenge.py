"""Build the ``WWW-Authenticate`` header (RFC 6750 §3, RFC 9728 §5.1, RFC 9449 §7.1).

Its values are fixed strings of ours, configured strings, or scope tokens that were checked. Nothing from a token or a
failure gets into the header, so that no stranger can inject one.
"""

from __future__ import annotations

import re
from typing import Final

from gateway.auth.dpop import ALGORITHMS
from gateway.errors import Challenged, InsufficientScope

_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")
_MAX_SCOPES: Final = 4096  # characters: clients and proxies refuse long headers


def www_authenticate(error: Challenged, metadata_url: str | None, scheme: str = "Bearer") -> str:
    """Return the header's value. ``scheme`` is used unless the error asks for another one. A backend's scope that is
    not a scope token (RFC 6749 §3.3) is left out, since no issuer can grant it."""
    if error.scheme != "Bearer":
        scheme = error.scheme
    parameters: list[tuple[str, str]] = []
    if error.error is not None:
        description = "The token lacks a scope" if isinstance(error, InsufficientScope) else error.message
        parameters += [("error", error.error), ("error_description", description)]
    scopes = " ".join(scope for scope in error.scopes if _SCOPE.fullmatch(scope))
    if scopes and len(scopes) <= _MAX_SCOPES:
        parameters.append(("scope", scopes))
    if metadata_url is not None:
        parameters.append(("resource_metadata", metadata_url))
    if scheme == "DPoP":
        parameters.append(("algs", " ".join(ALGORITHMS)))
    return f"{scheme} " + ", ".join(f'{name}="{value}"' for name, value in parameters)
