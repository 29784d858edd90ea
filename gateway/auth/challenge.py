"""The ``WWW-Authenticate`` header (RFC 6750 §3, RFC 9728 §5.1, RFC 9449 §7.1).

All its values are our own fixed strings, the configuration's, or scope tokens that have been checked: nothing that a
token or a failure said gets into a header.
"""

from __future__ import annotations

import re
from typing import Final

from gateway.auth.dpop import ALGORITHMS
from gateway.errors import Challenged, InsufficientScope

_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")
_MAX_SCOPES: Final = 4096


def www_authenticate(error: Challenged, metadata_url: str | None, scheme: str = "Bearer") -> str:
    """The header's value; ``scheme`` is what the gateway asks for where the error asks for none in particular. A
    backend's scope that is no scope token can be had of no issuer, and is left out."""
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
