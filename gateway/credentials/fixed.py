"""Send the same for every caller: nothing, fixed headers or keys, or a user name and a password."""

import base64
from collections.abc import Iterator

from gateway.backend.request_parts import RequestParts
from gateway.credentials.contract import Credential, CredentialModes, parts_to_send
from gateway.credentials.grants import TokenClient
from gateway.model import Caller
from gateway.settings import ServiceSettings


class FixedCredential(Credential):
    """Send the same for every caller: subclasses set ``parts``."""

    parts = RequestParts()

    async def request_parts(self, caller: Caller) -> RequestParts:
        return self.parts


class NoCredential(FixedCredential):
    """Send no credential: for services that know no users."""

    name = "none"
    shows = "no credential"


class StaticCredential(FixedCredential):
    """Send what the settings say: headers, or a key elsewhere in the request."""

    name = "static"
    counts_refusals = True
    shows = "fixed headers or keys, the same for every caller"
    sends_own_secret = True
    needs = (("send",),)
    refuses = ("login",)

    def __init__(self, tokens: TokenClient) -> None:
        super().__init__(tokens)
        self.parts = parts_to_send(self._settings.send, self._given())


class _UserCredential(FixedCredential):
    counts_refusals = True
    needs = (("user",), ("password",))
    refuses = ("login",)

    @classmethod
    def faults(cls, settings: ServiceSettings, modes: CredentialModes) -> Iterator[str]:
        if ":" in (settings.backend.credentials.user or ""):  # the service would take a part of it for the password
            yield f"{settings.knob('backend.credentials.user')}: must have no colon (RFC 7617 §2, RFC 7616 §3.4)"


class BasicCredential(_UserCredential):
    """Send a user name and a password in UTF-8 (RFC 7617)."""

    name = "basic"
    shows = "a user name and a password (RFC 7617), the same for every caller"
    sends_own_secret = True

    def __init__(self, tokens: TokenClient) -> None:
        super().__init__(tokens)
        given = self._given()
        pair = base64.b64encode(f"{given['user']}:{given['password']}".encode()).decode()
        self.parts = parts_to_send(self._settings.send, given, headers={"Authorization": f"Basic {pair}"})


class DigestCredential(_UserCredential):
    """Answer the service's challenge (RFC 7616). The HTTP client does so, per connection: http_client/digest.py."""

    name = "digest"
    shows = "an answer to the service's challenge (HTTP Digest, RFC 7616)"
    answers_challenges = True

    def __init__(self, tokens: TokenClient) -> None:
        super().__init__(tokens)
        given = self._given()
        self.parts = parts_to_send(self._settings.send, given, known_secrets=(str(given["password"]),))

    @classmethod
    def faults(cls, settings: ServiceSettings, modes: CredentialModes) -> Iterator[str]:
        if modes.calls is not modes.listing:
            where = settings.knob("backend.listing.credentials.mode")
            yield f"{where}: with {cls.name} for one of listing and calls, both need it; leave this at auto"
        yield from super().faults(settings, modes)
