"""Check services: their issuers, the token, the listing. Print a report, or the same as JSON (docs/checking.md)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import click

from gateway import jsonrpc
from gateway.auth.claims import IssuerPolicy
from gateway.auth.issuers import IntrospectionVerifier, Issuers
from gateway.auth.jwks import FetchFailed
from gateway.auth.metadata import ANOTHER_ISSUER
from gateway.catalog.curation import lint_catalog, list_some
from gateway.cli import report
from gateway.cli.contact import ContactFailed, contact
from gateway.cli.options import FAILED, NO_LISTING
from gateway.cli.store_check import store_state
from gateway.config.warnings import remarks_on
from gateway.credentials import credential_modes
from gateway.diagnosis.no_listing import NEEDS_TOKEN
from gateway.diagnosis.token import TokenReport
from gateway.errors import Unauthorized
from gateway.model import Caller, Catalog, NameStyle, Principal
from gateway.service.service import Service
from gateway.settings import ServiceSettings, Settings
from gateway.text import masked_url, printable

Say: TypeAlias = Callable[[str], None]


@dataclass(slots=True)
class Checked:
    """Hold what was found out about one service. ``failure`` is why ``code`` is not 0."""

    settings: ServiceSettings
    findings: Findings
    catalog: Catalog | None = None
    principal: Principal | None = None
    token: TokenReport | None = None
    remarks: list[str] = field(default_factory=list)
    failure: ContactFailed | None = None

    @property
    def code(self) -> int:
        return 0 if self.failure is None else self.failure.code


async def check(settings: Settings, services: Sequence[ServiceSettings], token: str | None, *, as_json: bool) -> int:
    """Print the report on each service. Return the highest exit code."""
    say: Say = (lambda _: None) if as_json else report.say
    common = [*remarks_on(settings)]
    if settings.services and common:
        say("\n".join(report.remarks(common)))
    checked = []
    for service in services:
        if service.name:
            say(report.heading(service))
        checked.append(await _check(service, token, [] if service.name else common, say))
        if not as_json:
            _tell_failure(checked[-1])
    code = max((one.code for one in checked), default=0)
    store, fault = await store_state(settings.store)
    if fault is not None:
        code = max(code, NO_LISTING)
        if not as_json:
            click.echo(f"store        {store}\ncause        {fault.cause}\nnext         {fault.next}", err=True)
    elif not code:
        say("\n".join((f"store        {store}", *report.workers(settings.server))))
    if as_json:
        shared = common if settings.services else []
        document = {
            "exit_code": code, "remarks": shared, "store": store, "services": [json_of(one) for one in checked],
            "store_failure": None if fault is None else {"cause": fault.cause, "next": fault.next},
        }  # fmt: skip
        click.echo(jsonrpc.pretty(document))
    return code


def _tell_failure(checked: Checked) -> None:
    if checked.failure is None:
        return
    for line in checked.failure.lines:
        click.echo(line, err=True)
    if checked.settings.name:
        click.echo(f"The service with this failure is {checked.settings.name}.", err=True)


async def _check(settings: ServiceSettings, token: str | None, remarks: list[str], say: Say) -> Checked:
    checked = Checked(settings, Findings(), remarks=[*remarks])

    async def report_auth(service: Service) -> None:
        async for line in checked.findings.lines(service):
            say(line)

    async def keep(service: Service, caller: Caller, catalog: Catalog) -> Catalog:
        checked.catalog, checked.principal = catalog, caller.principal
        if token is not None:
            checked.token = TokenReport.of(service.settings, service.auth.policies, token)
        return catalog

    try:
        catalog: Catalog = await contact(settings, keep, token, report_auth)
    except ContactFailed as failure:
        checked.failure, checked.token = failure, failure.token
        return checked if failure.diagnosis != NEEDS_TOKEN else _without_token(checked, say)
    finally:
        for line in checked.findings.invitation(checked.remarks):
            say(line)
    checked.remarks += lint_catalog(catalog, settings.catalog)
    if checked.principal is not None and checked.token is not None:
        for line in (*principal_lines(checked.principal), *checked.token.lines()):
            say(line)
    for line in report.check(settings, catalog, checked.remarks):
        say(line)
    lines = _failure_lines(settings, checked, catalog)
    checked.failure = ContactFailed(FAILED, lines) if lines else None
    return checked


def _failure_lines(settings: ServiceSettings, checked: Checked, catalog: Catalog) -> tuple[str, ...]:
    """Return why what was found is of use to nobody; none where it is."""
    if checked.findings.faults:
        return ("No caller can get in:", *(f"  {fault}" for fault in checked.findings.faults))
    lacking = checked.principal and {*settings.auth.scopes.list_} - checked.principal.scopes
    if lacking:
        knob = settings.knob("auth.scopes.list")
        cause = f"The token lacks {' '.join(sorted(lacking))}, which a listing needs."
        return (cause, f"next         Get a token with it, or correct {knob}.")
    some = catalog.quarantined or catalog.hidden
    more = "" if some else " The service lists no methods. If it shows them to some callers, set backend.credentials."
    return () if catalog.tools else (f"There are no tools to offer.{more}",)


def _without_token(checked: Checked, say: Say) -> Checked:
    """Say that the listing needs a token, which is no failure."""
    if not checked.findings.faults:
        checked.failure = None
        checked.remarks.append(
            "no tools are shown: the service lists them only to callers with a token; give one with --token-file"
        )
        say("\n".join(report.remarks(checked.remarks)))
    return checked


def json_of(checked: Checked) -> dict[str, Any]:
    """Return the JSON of one service. docs/checking.md describes every member: change both."""
    settings, catalog, failure = checked.settings, checked.catalog, checked.failure
    return {
        "name": settings.name or None, "path": f"{settings.mount}/mcp", "exit_code": checked.code,
        "backend": masked_url(settings.backend.url),
        "auth": {"mode": settings.auth.mode, "issuers": checked.findings.issuers,
                 "resource": settings.resource if settings.auth.traits.needs_metadata else None},
        "token": _token_json(checked),
        "dialect": None if catalog is None else catalog.dialect,
        "tools": [] if catalog is None else _tools_json(catalog, NameStyle(settings.catalog.names)),
        "quarantined": [] if catalog is None else [
            {"method": method.name, "reason": method.reason, "remedy": method.remedy, "pointer": method.pointer}
            for method in catalog.quarantined
        ],
        "hidden": [] if catalog is None else [*catalog.hidden],
        "remarks": checked.remarks, "failure": None if failure is None else _failure_json(failure),
    }  # fmt: skip


def _tools_json(catalog: Catalog, names: NameStyle) -> list[dict[str, Any]]:
    return [
        {"name": tool.name_for(names), "method": tool.method,
         "arguments": [*tool.input_schema.get("properties", {})], "required": [*tool.input_schema.get("required", ())]}
        for tool in catalog.tools
    ]  # fmt: skip


def _token_json(checked: Checked) -> dict[str, Any] | None:
    token, principal = checked.token, checked.principal
    if token is None:
        return None
    return {
        "accepted": principal is not None, "refusal": token.refusal or None,
        "subject": None if principal is None else principal.subject,
        "client": None if principal is None else principal.client,
        "claims": {row.name: {"has": row.has, "wanted": row.wanted} for row in token.rows},
        "next": token.next or None, "preset": token.preset or None,
    }  # fmt: skip


def _failure_json(failure: ContactFailed) -> dict[str, Any]:
    found = failure.diagnosis
    return {
        "lines": [*failure.lines],
        "cause": None if found is None else found.cause, "next": None if found is None else found.next,
        "steps": [{"questions": questions, "answer": answer} for questions, answer in report.fold_steps(failure.steps)],
    }  # fmt: skip


class Findings:
    """Make the lines of the report on authentication. ``faults`` are those that keep all callers out, ``issuers`` what
    docs/checking.md says of each, ``service`` the one that asks for tokens."""

    def __init__(self) -> None:
        self.service: Service | None = None
        self.faults: list[str] = []
        self.issuers: list[dict[str, Any]] = []

    async def lines(self, service: Service) -> AsyncIterator[str]:
        """Yield the lines. Contacts each issuer."""
        settings = service.settings
        if service.site.metadata is None:
            yield "auth         off: every client that reaches the port may list and call"
            return
        self.service = service
        yield f"resource     {settings.resource}"
        for policy in service.auth.policies:
            async for line in self._issuer(settings, service.auth.issuers, policy):
                yield line
        for line in _credential_lines(settings):
            yield line

    def invitation(self, remarks: list[str]) -> Iterator[str]:
        """Yield what a client without a token sees, which depends on the listing. Where that is not enough for some
        clients, add a remark."""
        if self.service is None or (metadata := self.service.site.metadata) is None:
            return
        yield "a client without a token sees"
        yield f"  401 WWW-Authenticate: {self.service.site.challenge(Unauthorized(''))}"
        yield f"  {metadata.url}"
        yield f"  {metadata.body.decode()}"
        access, knob = self.service.access, self.service.settings.knob("auth.scopes.challenge")
        first = access.challenged_scopes()
        later = [scope for scope in access.supported_scopes if scope not in first]
        if first and later:  # where none is asked for, clients ask for all
            remarks.append(
                f"{knob} is least: clients first ask for {' '.join(first)}, not for {list_some(later)}; where an "
                "issuer holds a client to the scopes that it registered with, clients that register themselves need all"
            )

    async def _issuer(self, settings: ServiceSettings, issuers: Issuers, policy: IssuerPolicy) -> AsyncIterator[str]:
        issuer, preset = policy.issuer, policy.preset
        keys = issuers.keys[issuer.issuer]
        found: dict[str, Any] = {"issuer": issuer.issuer, "preset": preset.name, "audiences": sorted(policy.audiences)}
        self.issuers.append(found | {"fault": None})
        yield f"issuer       {issuer.issuer} (preset {preset.name})"
        if issuer.introspects:
            verifier = IntrospectionVerifier(policy, keys, issuers.outbounds[issuer.issuer])
            try:
                yield f"  introspects each token at {await verifier.endpoint()}"
            except FetchFailed as error:
                yield self._fault(settings, f"{issuer.issuer}: {error}")
        else:
            await keys.refresh()
            if keys.keys is None:
                yield self._fault(settings, f"{issuer.issuer}: {keys.failure}")
            else:
                algorithms = ", ".join(sorted({key.alg for key in keys.keys.keys}))
                yield f"  keys       {len(keys.keys.keys)} ({algorithms})"
                for ignored in keys.keys.ignored:
                    yield printable(f"  not used   {ignored}")
                try:
                    await keys.get_metadata()
                except FetchFailed as error:
                    if ANOTHER_ISSUER in str(error):
                        yield self._fault(settings, f"{issuer.issuer}: {error}; clients that log in refuse it")
        if issuer.clients:
            yield f"  clients    {', '.join(issuer.clients)}"
        yield f"  audience   {' or '.join(sorted(policy.audiences))}"
        for sentence in preset.loosens:
            yield f"  loosened   {sentence.replace('{issuer}', issuer.issuer)}"
        for sentence in preset.advice:
            yield f"  at issuer  {sentence.replace('{resource}', settings.resource)}"

    def _fault(self, settings: ServiceSettings, text: str) -> str:
        """Return the line of a fault, with what to do about it."""
        knob = settings.knob(f"auth.issuers.{len(self.issuers) - 1}")
        if any(words in text for words in ("HTTP 5", "connection refused", "no answer", "cannot be resolved")):
            text += f"; start the issuer or look into its log, or correct {knob}"
        elif settings.auth.issuers[len(self.issuers) - 1].metadata.jwks_uri is not None:
            text += f"; correct {knob}.metadata.jwks_uri, the address of its keys"
        else:
            text += f"; {knob}.issuer must be the iss of its tokens: no address of keys, metadata or a login page"
        self.faults.append(text)
        self.issuers[-1]["fault"] = text
        return f"  FAULT      {text}"


def _credential_lines(settings: ServiceSettings) -> Iterator[str]:
    modes = credential_modes(settings)
    yield f"calls send   {modes.calls.shows}"
    whose = "each caller's own" if modes.lists_per_caller else "one for all callers"
    yield f"listing      {whose}, fetched with {modes.effective_listing.shows}"
    if not modes.lists_per_caller:
        yield "  remark     every caller sees all of its methods, even those that the backend would hide from it"


def principal_lines(principal: Principal) -> Iterator[str]:
    """Yield who the bearer of an accepted token is."""
    yield f"token        accepted, of {printable(principal.subject)} by client {printable(principal.client) or '-'}"
    yield f"  scopes     {' '.join(sorted(principal.scopes)) or '-'}"
