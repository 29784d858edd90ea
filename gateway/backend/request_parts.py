"""Hold what a request to the backend carries so that the backend knows who asks, and put it into the request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlencode

from gateway.backend.redaction import looks_secret, secrets_in_headers
from gateway.jsonrpc import ResponseError
from gateway.settings.knobs import texts_in

_UNAUTHORIZED: Final = 401


@dataclass(frozen=True, slots=True)
class RequestParts:
    """Hold the parts of a request that are a credential: ``headers``, parameters of the ``query``, members of the
    ``message``, leading ``params``, named ``arguments``.

    ``secrets`` are texts within them that no answer may show. ``refusals`` are the answers, beside HTTP 401, that mean
    that this credential has expired: HTTP statuses, error codes, texts in errors. ``callers_own`` says that it is the
    caller's own token, which the caller may see.
    """

    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    query: Mapping[str, str] = field(default_factory=dict, repr=False)
    message: Mapping[str, Any] = field(default_factory=dict, repr=False)
    params: tuple[Any, ...] = field(default=(), repr=False)
    arguments: Mapping[str, Any] = field(default_factory=dict, repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)
    refusals: frozenset[int | str] = field(default=frozenset(), compare=False)
    callers_own: bool = False

    def url(self, url: str) -> str:
        """Return the URL with the parameters of the query."""
        return f"{url}{'&' if '?' in url else '?'}{urlencode(self.query)}" if self.query else url

    def complete_params(self, params: dict[str, Any] | list[Any] | None) -> dict[str, Any] | list[Any] | None:
        """Return the params of a call with those of the credential. Params by position get no named ones."""
        if self.arguments and not isinstance(params, list):
            given = params or {}
            params = {**given, **{name: _joined(value, given.get(name)) for name, value in self.arguments.items()}}
        if not self.params:
            return params
        return [*self.params, *(params if isinstance(params, list) else [] if params is None else [params])]

    def all_secrets(self) -> tuple[str, ...]:
        """Return every text in the parts that is a secret, or looks like one."""
        others = (*self.query.values(), *texts_in([self.message, [*self.params], self.arguments]))
        return (*self.secrets, *secrets_in_headers(self.headers), *filter(looks_secret, others))

    def refused_by(self, status: int, error: ResponseError | None = None) -> bool:
        """Tell whether an answer, with this HTTP status or this error, means that the credential is not accepted."""
        if status == _UNAUTHORIZED or status in self.refusals:
            return True
        if error is None or not self.refusals:
            return False
        words = f"{error.message} {error.data}"
        return error.code in self.refusals or any(isinstance(one, str) and one in words for one in self.refusals)


def _joined(value: Any, given: Any) -> Any:
    """Return a fixed argument; a list stands before the caller's own."""
    return [*value, *given] if isinstance(value, list) and isinstance(given, list) else value
