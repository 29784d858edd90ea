"""Send no credential: for services that know no users."""

from __future__ import annotations

from gateway.credentials.contract import FixedCredential


class NoCredential(FixedCredential):
    name = "none"
    shows = "no credential"
