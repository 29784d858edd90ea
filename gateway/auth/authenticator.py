"""Authenticate a request: from its headers to a principal (RFC 6750 §2.1, RFC 9449 §7.1).

Verified tokens are cached as they are, since their principals hold them, never past their end; failures for seconds,
under the SHA-256. Other clients may share the address, so failures do not count against it. Callers get a fixed
sentence; the reason is in the log, sampled in a flood.
"""

import hashlib
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Final, Literal, NamedTuple

import structlog
from cachetools import FIFOCache, TTLCache

from gateway.auth.asking import IssuerTurns
from gateway.auth.claims import LEEWAY
from gateway.auth.compact import MAX_BYTES, InvalidProof, InvalidToken, Undecidable
from gateway.auth.dpop import ProofChecker
from gateway.auth.verifier import VerifiedToken, Verifier
from gateway.concurrency.single_flight import SingleFlight, outcome_of
from gateway.errors import AuthUnavailable, MalformedAuthorization, Unauthorized
from gateway.model import Principal
from gateway.networks import site_of
from gateway.telemetry.record import RECORD
from gateway.telemetry.sampling import Sampler

MAX_TOKENS: Final = 20_000
MAX_FAILURES: Final = 10_000
FAILURE_TTL: Final = 5.0
NO_TOKEN: Final = "This needs an access token in the Authorization header"  # noqa: S105, a sentence
BAD_TOKEN: Final = "The access token is not valid here"  # noqa: S105
EXPIRED: Final = "The access token has expired"
BAD_PROOF: Final = "The DPoP proof is not valid for this request"
_UNDECIDED: Final = "Tokens cannot be verified at the moment"

_TOKEN: Final = r"[A-Za-z0-9\-._~+/]+=*"  # noqa: S105, RFC 6750 §2.1 b64token
_CREDENTIALS = re.compile(rf"([A-Za-z0-9!#$%&'*+.^_`|~-]+) +({_TOKEN})")
_RETRY_AFTER: Final = 5
_LOG_LIMIT: Final = (20, 10.0)  # the most log lines about refused tokens, and in how many seconds

log = structlog.get_logger()


class PresentedToken(NamedTuple):
    """Hold what a request presents: its Authorization and DPoP headers, whether its query has a token, its client."""

    authorization: Sequence[str]
    proofs: Sequence[str]
    method: str
    path: str
    in_query: bool
    address: str


@dataclass(eq=False, repr=False)
class Authenticator:
    """Find out who sends a request. ``turns_of`` returns the turns that the verification of a token waits for, if any.
    ``clock`` is monotonic, ``wall`` is wall-clock seconds, by which tokens end."""

    verifier: Verifier
    _: KW_ONLY
    dpop: Literal["off", "accept", "require"] = "off"
    proofs: ProofChecker | None = None
    turns_of: Callable[[str], IssuerTurns | None] = lambda _: None
    clock: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time

    def __post_init__(self) -> None:
        self._verified_tokens: FIFOCache[str, tuple[VerifiedToken, float]] = FIFOCache(MAX_TOKENS)
        self._failed_tokens: TTLCache[bytes, InvalidToken] = TTLCache(MAX_FAILURES, FAILURE_TTL, self.clock)
        self._verifications = SingleFlight[bytes, VerifiedToken]()
        self._refusal_sampler = Sampler(*_LOG_LIMIT, self.clock)
        self._undecidable_sampler = Sampler(*_LOG_LIMIT, self.clock)

    def known_principal(self, authorization: Sequence[str]) -> Principal | None:
        """Return the principal of a bearer token whose verification still holds, None where :meth:`authenticate` must
        decide. The query of the request must have no token."""
        if len(authorization) != 1 or self.dpop == "require":
            return None
        value = authorization[0]
        # Its form was checked when it was first seen.
        verified = self._known_token(value[7:]) if value.startswith("Bearer ") else None
        return None if verified is None or verified.bound_key is not None else verified.principal

    async def authenticate(self, presented: PresentedToken) -> Principal | None:
        """Return the principal, None without a token. Raises :class:`Challenged`, :class:`AuthUnavailable`."""
        if presented.in_query:
            raise self._malformed("A token must not be in the URL: send it in the Authorization header")
        if not presented.authorization:
            return None
        scheme, raw = self._read_token(presented.authorization)
        if raw is None:
            return None
        verified = self._known_token(raw) or await self._verify_once(_digest(raw), raw, presented.address)
        if scheme == "bearer" and self.dpop != "require" and verified.bound_key is None:
            return verified.principal
        await self._check_proof(scheme, verified, raw, presented)
        return verified.principal

    def _known_token(self, raw: str) -> VerifiedToken | None:
        """Return the cached verification of a token, None where there is none or it no longer holds."""
        try:
            verified, until = self._verified_tokens[raw]
        except KeyError:
            return None
        if until <= self.clock() or not verified.still_valid():
            return None
        # The monotonic clock stands still while a machine sleeps, and ignores that the wall clock was set.
        return verified if self.wall() < verified.principal.expires + LEEWAY else None

    @property
    def scheme(self) -> str:
        """Return the scheme that challenges ask for."""
        return "DPoP" if self.dpop == "require" else "Bearer"

    def _read_token(self, values: Sequence[str]) -> tuple[str, str | None]:
        """Return the scheme in lower case and the token, which is None where the scheme is another one than ours."""
        if len(values) > 1:
            raise self._malformed("There is more than one Authorization header: send one")
        value = values[0]
        scheme = value.partition(" ")[0].lower()
        if scheme != "bearer" and (scheme != "dpop" or self.dpop == "off"):
            return scheme, None
        match = _CREDENTIALS.fullmatch(value)
        if match is None or len(value) > MAX_BYTES + 16:
            raise self._malformed(f"The Authorization header must be {self.scheme} and one token, without quotes")
        return scheme, match[2]

    async def _verify_once(self, digest: bytes, raw: str, address: str) -> VerifiedToken:
        failed = self._failed_tokens.get(digest)
        if failed is not None:
            raise self._unauthorized(failed)
        try:
            return await self._join(digest, raw, address)
        except InvalidToken as error:
            self._log_refusal("token refused", str(error), address)
            raise self._unauthorized(error) from None
        except Undecidable as error:
            if (more := self._undecidable_sampler.admit(str(error))) is not None:
                log.warning("token cannot be verified", reason=str(error), **more)
            raise AuthUnavailable(_UNDECIDED, retry_after=error.retry_after) from None
        except Exception:
            # A fault of ours must not look like a bad token: a client would throw a good one away.
            log.exception("token verification failed unexpectedly")
            raise AuthUnavailable(_UNDECIDED, retry_after=_RETRY_AFTER) from None

    async def _join(self, digest: bytes, raw: str, address: str) -> VerifiedToken:
        """Return the outcome of the one verification of a token, which all share that show it meanwhile. It begins in
        the turn of the first of their networks, and who gives up before waits for no turn."""
        flights, verify = self._verifications, partial(self._verify, digest, raw)
        turns = None if digest in flights else self.turns_of(raw)
        if turns is None:
            return await flights.join(digest, verify)
        begin = partial(flights.start, digest, verify)
        # This object is part of the key: a successor may share the turns, and judges by other rules.
        return await outcome_of(await turns.take(site_of(address), (self, digest), begin))

    async def _verify(self, digest: bytes, raw: str) -> VerifiedToken:
        try:
            verified = await self.verifier.verify_token(raw)
        except InvalidToken as error:
            self._failed_tokens[digest] = error.with_traceback(None)  # whose frames would hold the raw token
            raise
        self._verified_tokens[raw] = verified, self.clock() + verified.keep_for
        return verified

    async def _check_proof(self, scheme: str, verified: VerifiedToken, raw: str, presented: PresentedToken) -> None:
        try:
            if verified.bound_key is None:
                raise InvalidToken("it is not bound to a key (no cnf.jkt), which DPoP requires")
            # A stolen token that is bound to a key must not pass as a bearer token (RFC 9449 §7.2).
            if scheme != "dpop" or self.proofs is None:
                raise InvalidToken("it is bound to a key, but was sent as a bearer token")
            if len(presented.proofs) != 1:
                raise InvalidProof("the request does not have exactly one DPoP header")
            await self.proofs.check_proof(
                presented.proofs[0], method=presented.method, path=presented.path, token=raw,
                bound_to=verified.bound_key,
            )  # fmt: skip
        except InvalidToken as error:
            self._log_refusal("token refused", str(error), presented.address)
            raise self._unauthorized(error) from None
        except InvalidProof as error:
            self._log_refusal("proof refused", str(error), presented.address)
            RECORD.get().note_refused_token("invalid_proof")
            raise Unauthorized(BAD_PROOF, error="invalid_dpop_proof", scheme="DPoP") from None

    def _log_refusal(self, event: str, reason: str, address: str) -> None:
        if (more := self._refusal_sampler.admit(f"{event}: {reason}")) is not None:
            log.info(event, reason=reason, address=address, **more)

    def _unauthorized(self, error: InvalidToken) -> Unauthorized:
        RECORD.get().note_refused_token("expired" if error.expired else "invalid_token")
        return Unauthorized(EXPIRED if error.expired else BAD_TOKEN, error="invalid_token")

    def _malformed(self, message: str) -> MalformedAuthorization:
        RECORD.get().note_refused_token("malformed")
        return MalformedAuthorization(message, error="invalid_request")


def _digest(raw: str) -> bytes:
    return hashlib.sha256(raw.encode("utf-8", "surrogateescape")).digest()
