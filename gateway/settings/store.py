"""Define the knobs of the store: what is kept beside the services, and where."""

from dataclasses import dataclass
from typing import Annotated, Final, Literal
from urllib.parse import unquote, urlsplit

from pydantic import SecretStr

from gateway.settings.knobs import Section, checked, knob

MEMORY: Final = "memory:"
_FORMS: Final = (
    "must be memory:, redis://host:6379/0, the same with rediss:// for TLS, or with Sentinel "
    "redis+sentinel://host:26379,host:26379/name/0; a password stands in store.password"
)
_SCHEMES: Final = ("redis", "rediss", "redis+sentinel", "rediss+sentinel")
_PORT: Final = 6379
_SENTINEL_PORT: Final = 26379


@dataclass(frozen=True, slots=True)
class RedisAddress:
    """Hold where a Redis is: one server, or Sentinels that know the master ``service`` by name."""

    hosts: tuple[tuple[str, int], ...]
    database: int = 0
    service: str = ""
    tls: bool = False
    user: str | None = None


class StoreSettings(Section):
    """Store of what outlives a reload, and what replicas share: used proofs and consents, ended sessions, rate limits,
    the shared listing."""

    url: Annotated[str, checked(lambda url: url == MEMORY or parse_address(url), _FORMS)] = knob(
        MEMORY,
        "memory: keeps everything in the process. redis://host:6379/0 is shared by replicas, and needs the extra redis "
        "and server.secret_file; rediss:// is the same with TLS, redis+sentinel://host:26379,host:26379/name/0 asks "
        "Sentinel for the master of that name. redis://user@host:6379/0 names a user (ACL).",
    )
    password: SecretStr | None = knob(None, "Password of Redis, e.g. ${file:/run/secrets/redis}.")
    sentinel_password: SecretStr | None = knob(None, "Password of the Sentinels, where they have one.")
    ca_file: str | None = knob(None, "PEM file of further authorities to trust for TLS, beside the system's.")
    when_away: Literal["refuse", "allow"] = knob(
        "refuse",
        "While Redis does not answer, what must happen only once over all replicas (a DPoP proof, a person's consent) "
        "is refused with 503, or allowed once on each replica. All else goes on either way.",
    )

    @property
    def is_shared(self) -> bool:
        return self.url != MEMORY

    @property
    def address(self) -> RedisAddress:
        return parse_address(self.url)

    def conflict(self) -> str:
        needed = self.is_shared and self.address.user is not None
        return "a user in url needs password" if needed and self.password is None else ""


def parse_address(url: str) -> RedisAddress:
    """Return where Redis is. Raises :class:`ValueError`, which quotes nothing: the URL may hold a password."""
    scheme, separator, _ = url.partition("://")
    if "cluster" in scheme:
        raise ValueError("Redis Cluster is not supported: name one server, or Sentinels")
    parts = urlsplit(url)
    if not separator or scheme not in _SCHEMES or parts.query or parts.fragment:
        raise ValueError(_FORMS)
    user, _, hosts_part = parts.netloc.rpartition("@")
    if ":" in user:
        raise ValueError("must not carry a password, which belongs in store.password")
    by_name = scheme.endswith("+sentinel")
    path = [part for part in parts.path.split("/") if part]
    service = path.pop(0) if by_name and path else ""
    hosts = tuple(_host(host, _SENTINEL_PORT if by_name else _PORT) for host in hosts_part.split(","))
    database = path[0] if path else "0"
    if by_name != bool(service) or (len(hosts) > 1 and not by_name) or len(path) > 1 or not database.isdecimal():
        raise ValueError(_FORMS)
    return RedisAddress(hosts, int(database), service, scheme.startswith("rediss"), unquote(user) or None)


def _host(text: str, default_port: int) -> tuple[str, int]:
    try:
        parts = urlsplit(f"//{text}")
        host, port = parts.hostname, parts.port
    except ValueError:
        raise ValueError(_FORMS) from None
    if not host:
        raise ValueError(_FORMS)
    return host, default_port if port is None else port
