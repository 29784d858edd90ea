"""Check services: their issuers, the token, the listing. Print a report, or the same as JSON (docs/checking.md)."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

import click

from gateway import jsonrpc
from gateway.auth.claims import IssuerPolicy
from gateway.catalog.advice import advise, tokens_of
from gateway.catalog.curation import lint_catalog
from gateway.cli import report
from gateway.cli.contact import ContactFailed, contact, find_endpoint
from gateway.cli.options import FAILED, NO_LISTING, UNUSABLE, fail
from gateway.config.source import ConfigError
from gateway.config.warnings import config_warnings
from gateway.credentials import credential_modes
from gateway.diagnosis.access import IssuerFinding, TokenReport, challenge_warning, check_issuer
from gateway.diagnosis.no_listing import NEEDS_TOKEN
from gateway.diagnosis.store import check_store
from gateway.diagnosis.trouble import certificate_of
from gateway.errors import Unauthorized
from gateway.model import Caller, Catalog, NameStyle, Principal
from gateway.service.resource import Resource
from gateway.settings import ResourceSettings, ServiceSettings, Settings
from gateway.store import StoreFault
from gateway.text import masked_url, printable

Say: TypeAlias = Callable[..., None]


@dataclass(slots=True)
class Checked:
    """Hold what was found out about one service. ``failure`` is why ``code`` is not 0."""

    settings: ResourceSettings
    warnings: list[str]
    service: Resource | None = None
    issuers: list[tuple[IssuerPolicy, IssuerFinding]] = field(default_factory=list)
    catalog: Catalog | None = None
    principal: Principal | None = None
    token: TokenReport | None = None
    advice: list[dict[str, Any]] | None = None
    failure: ContactFailed | None = None

    @property
    def code(self) -> int:
        return 0 if self.failure is None else self.failure.code

    @property
    def faults(self) -> list[str]:
        """Return the faults that keep all callers out."""
        return [found.fault for _, found in self.issuers if found.fault]


async def check(
    settings: Settings, services: Sequence[ResourceSettings], token: str | None, *, as_json: bool, agents: bool = False
) -> int:
    """Print the report on each service, for its ``agents`` too. Return the highest exit code."""
    say: Say = (lambda *_: None) if as_json else report.say
    try:
        common = [*config_warnings(settings)]
    except ConfigError as error:
        fail(UNUSABLE, str(error))
    if settings.services and common:
        say(*report.warnings(common))
    checked = []
    for service in services:
        if service.name:
            say(report.heading(service))
        checked.append(await _check(service, token, [] if service.name else [*common], say))
        if agents and (catalog := checked[-1].catalog) is not None:
            checked[-1].advice = advise(catalog, service.catalog, service.name)
            say(*report.advice(tokens_of(catalog, NameStyle(service.catalog.names)), checked[-1].advice))
        if not as_json and (failure := checked[-1].failure):
            named = [f"The service with this failure is {service.name}."] if service.name else []
            click.echo("\n".join([*failure.lines, *named]), err=True)
    code = max((one.code for one in checked), default=0)
    try:
        store, fault = await check_store(settings.store)
    except StoreFault as error:
        fail(UNUSABLE, f"store.url: {error}")
    if fault is not None:
        code = max(code, NO_LISTING)
        if not as_json:
            click.echo(f"store        {store}\ncause        {fault.cause}\nnext         {fault.next}", err=True)
    elif not code:
        say(f"store        {store}", *report.workers(settings.server))
    if as_json:
        shared = common if settings.services else []
        document = {
            "exit_code": code, "remarks": shared, "store": store, "services": [json_of(one) for one in checked],
            "store_failure": None if fault is None else {"cause": fault.cause, "next": fault.next},
        }  # fmt: skip
        click.echo(jsonrpc.pretty(document))
    return code


async def _check(settings: ResourceSettings, token: str | None, warnings: list[str], say: Say) -> Checked:
    checked = Checked(settings, warnings)

    async def keep(service: Resource, caller: Caller, catalog: Catalog) -> Catalog:
        checked.catalog, checked.principal = catalog, caller.principal
        checked.failure = await find_endpoint(service, catalog)
        if caller.principal is not None and caller.token is None:
            checked.token = TokenReport.of_key(caller.principal)
        elif token is not None:
            checked.token = TokenReport.of(service.settings, service.auth.policies, token)
        return catalog

    try:
        catalog: Catalog = await contact(settings, keep, token, partial(_report_auth, checked, say))
    except ContactFailed as failure:
        checked.failure, checked.token = failure, failure.token
        return checked if failure.diagnosis != NEEDS_TOKEN else _without_token(checked, say)
    finally:
        say(*_invitation(checked))
    if isinstance(settings, ServiceSettings):
        checked.warnings += lint_catalog(catalog, settings.catalog)
        if settings.backend.tls.fingerprint and (expired := (await certificate_of(settings.backend.url))[2]):
            checked.warnings.append(f"{settings.knob('backend.tls.fingerprint')}: this certificate has {expired}")
    checked.warnings += [f"the tools of {name} are missing: see the service above" for name in catalog.service.missing]
    if checked.principal is not None and checked.token is not None:
        say(*principal_lines(checked.principal), *checked.token.lines())
    say(*report.check(settings, catalog, checked.warnings))
    lines = _failure_lines(settings, checked, catalog)
    checked.failure = checked.failure or (ContactFailed(FAILED, lines) if lines else None)
    return checked


def _failure_lines(settings: ResourceSettings, checked: Checked, catalog: Catalog) -> tuple[str, ...]:
    """Return why no caller could use what was found; none where callers can."""
    if checked.faults:
        return ("No caller can get in:", *(f"  {fault}" for fault in checked.faults))
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
    if not checked.faults:
        checked.failure = None
        checked.warnings.append(
            "no tools are shown: the service lists them only to callers with a token; give one with --token-file"
        )
        say(*report.warnings(checked.warnings))
    return checked


def json_of(checked: Checked) -> dict[str, Any]:
    """Return the JSON of one service. docs/checking.md describes every member: change both."""
    settings, catalog, failure = checked.settings, checked.catalog, checked.failure
    names = NameStyle(settings.catalog.names)
    return {
        "name": settings.name or None, "path": f"{settings.mount}/mcp", "exit_code": checked.code,
        "backend": masked_url(settings.backend.url) if isinstance(settings, ServiceSettings) else None,
        "auth": {
            "mode": settings.auth.mode,
            "issuers": [
                {"issuer": policy.issuer.issuer, "preset": policy.preset.name, "audiences": sorted(policy.audiences),
                 "fault": found.fault or None}
                for policy, found in checked.issuers
            ],
            "resource": settings.resource if settings.auth.traits.has_issuers else None,
        },
        "token": _token_json(checked),
        "dialect": None if catalog is None else catalog.dialect,
        "tools": [] if catalog is None else [
            {"name": tool.name_for(names), "method": tool.method,
             "arguments": [*tool.input_schema.get("properties", {})],
             "required": [*tool.input_schema.get("required", ())]}
            for tool in catalog.tools
        ],
        "quarantined": [] if catalog is None else [
            {"method": method.name, "reason": method.reason, "remedy": method.remedy, "pointer": method.pointer}
            for method in catalog.quarantined
        ],
        "hidden": [] if catalog is None else [*catalog.hidden],
        "advice": checked.advice,
        "remarks": checked.warnings, "failure": None if failure is None else _failure_json(failure),
    }  # fmt: skip


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


async def _report_auth(checked: Checked, say: Say, service: Resource) -> None:
    """Report on authentication, and keep what was found. Contacts each issuer."""
    checked.service, settings = service, service.settings
    auth = settings.auth
    if not auth.traits.authenticates:
        say("auth         off: every client that reaches the port may list and call")
        return
    if auth.takes_keys:
        say(f"API keys     {len(service.files.keys)} in {auth.keys.file}")
    if not auth.traits.has_issuers:
        return
    say(f"resource     {settings.resource}")
    for policy in service.auth.policies:
        say(f"issuer       {policy.issuer.issuer} (preset {policy.preset.name})")
        found = await check_issuer(settings, policy, service.auth.issuers)
        checked.issuers.append((policy, found))
        say(*_issuer_lines(settings, policy, found))
    if isinstance(settings, ServiceSettings):
        say(*_credential_lines(settings))


def _issuer_lines(settings: ResourceSettings, policy: IssuerPolicy, found: IssuerFinding) -> Iterator[str]:
    if found.endpoint:
        yield f"  introspects each token at {found.endpoint}"
    if found.keys is not None:
        algorithms = ", ".join(sorted({key.alg for key in found.keys.keys}))
        yield f"  keys       {len(found.keys.keys)} ({algorithms})"
        yield from (printable(f"  not used   {ignored}") for ignored in found.keys.ignored)
    if found.fault:
        yield f"  FAULT      {found.fault}"
    if policy.issuer.clients:
        yield f"  clients    {', '.join(policy.issuer.clients)}"
    yield f"  audience   {' or '.join(sorted(policy.audiences))}"
    for sentence in policy.preset.loosens:
        yield f"  loosened   {sentence.replace('{issuer}', policy.issuer.issuer)}"
    for sentence in policy.preset.advice:
        yield f"  at issuer  {sentence.replace('{resource}', settings.resource)}"


def _invitation(checked: Checked) -> Iterator[str]:
    """Yield what a client without a token sees, which depends on the listing. Warn where some clients need more."""
    service = checked.service
    if service is None or (metadata := service.site.metadata) is None:
        return
    yield "a client without a token sees"
    yield f"  401 WWW-Authenticate: {service.site.challenge(Unauthorized(''))}"
    yield f"  {metadata.url}"
    yield f"  {metadata.body().decode()}"
    if warning := challenge_warning(service.settings, service.access):
        checked.warnings.append(warning)


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
