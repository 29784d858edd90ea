"""Hold what a request to the backend carries so that the backend knows who asks, and put it into the request."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import urlencode

from msgspec import Struct

from gateway.backend.redaction import looks_secret, secrets_in_headers, written_forms
from gateway.jsonrpc import Raw, elements_of
from gateway.jsonrpc.response import ResponseError
from gateway.settings.knobs import texts_in

NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})
_UNAUTHORIZED: Final = frozenset((401,))


class RequestParts(Struct, eq=False):
    """Hold the parts of a request that are a credential: ``headers``, parameters of the ``query``, members of the
    ``message``, leading ``params``, named ``arguments``.

    ``known_secrets`` are texts within them that no response may show. ``refusing_statuses`` are the HTTP statuses that
    mean that the backend does not accept these parts, ``refusing_errors`` the codes of errors, and texts in them.
    ``callers_own`` says that it is the caller's own token, which the caller may see. ``login`` is the number of the
    login that gave them, where that belongs to the connection: another one may give the same parts.
    """

    headers: Mapping[str, str] = NOTHING
    query: Mapping[str, str] = NOTHING
    message: Mapping[str, Any] = NOTHING
    params: tuple[Any, ...] = ()
    arguments: Mapping[str, Any] = NOTHING
    known_secrets: tuple[str, ...] = ()
    refusing_statuses: frozenset[int] = _UNAUTHORIZED
    refusing_errors: tuple[int | str, ...] = ()
    callers_own: bool = False
    login: int = 0
    _secrets: tuple[str, ...] | None = None
    written_secrets: tuple[bytes, ...] | None = None

    def __repr__(self) -> str:
        return f"<RequestParts callers_own={self.callers_own}>"  # all else may be secret

    def __eq__(self, other: object) -> bool:
        """Return whether a request with the other parts would be the same."""
        names = ("headers", "query", "message", "params", "arguments", "callers_own", "login")
        same_type = isinstance(other, RequestParts)
        return same_type and all(getattr(self, name) == getattr(other, name) for name in names)

    @property
    def secrets(self) -> tuple[str, ...]:
        """Return every text in the parts that is a secret, or looks like one."""
        if self._secrets is None:
            others = (*self.query.values(), *texts_in([self.message, [*self.params], self.arguments]))
            found = filter(looks_secret, (*secrets_in_headers(self.headers), *others))
            self._secrets = (*self.known_secrets, *found)
        return self._secrets

    def secrets_in_results(self) -> tuple[bytes, ...]:
        """Return the secrets as they may stand in a result's JSON, and keep them in ``written_secrets``."""
        self.written_secrets = written_forms(self.secrets)
        return self.written_secrets

    def url(self, url: str) -> str:
        """Return the URL with the parameters of the query."""
        return f"{url}{'&' if '?' in url else '?'}{urlencode(self.query)}" if self.query else url

    def complete_params(self, params: dict[str, Any] | list[Any] | None) -> dict[str, Any] | list[Any] | None:
        """Return the params of a call with those of the credential. Params by position get no named ones."""
        if self.arguments and not isinstance(params, list):
            given = params or {}
            params = {**given, **self.arguments}
            for name, value in self.arguments.items():
                if isinstance(value, list) and (own := _elements(given.get(name))) is not None:
                    params[name] = [*value, *own]  # a list stands before the caller's own
        if not self.params:
            return params
        return [*self.params, *(params if isinstance(params, list) else [] if params is None else [params])]

    def refused_with(self, error: ResponseError) -> bool:
        """Return whether an error means that the backend does not accept these parts."""
        words = f"{error.message} {error.data}" if self.refusing_errors else ""
        return any(one in words if isinstance(one, str) else one == error.code for one in self.refusing_errors)


def _elements(value: Any) -> list[Any] | None:
    """Return the elements of an array, which may be serialized already; None for any other value."""
    if isinstance(value, Raw) and bytes(value).startswith(b"["):
        return elements_of(bytes(value))
    return value if isinstance(value, list) else None
