"""Find the one cause for which a service gave no listing, and the one thing to do next.

The first rule that holds counts: what stops every request comes first. Most need only the responses that the search
had; a few send further requests, which carry no credential.
"""

import re
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias
from urllib.parse import urljoin, urlsplit

from gateway.credentials import correct_credentials, credential_modes
from gateway.diagnosis.connection import other_scheme, sentence, set_knob, shown, unreachable
from gateway.diagnosis.products import (
    hints_at_mcp,
    mcp_server,
    mcp_server_at,
    not_http,
    product,
    refuses_all,
    stateful,
    web_api,
    websocket,
)
from gateway.diagnosis.said import of_answer, of_page, quoted, text_of
from gateway.diagnosis.trouble import PATHS, Diagnosis, Elsewhere, Question, Trouble, is_message
from gateway.listing.dialect import NoListing, Step
from gateway.listing.drupal import PATH as DRUPAL_PATH
from gateway.listing.drupal import is_of_drupal
from gateway.listing.reader import HELD_BACK
from gateway.model import EndpointFault
from gateway.units import format_duration

_LOGIN_PAGE: Final = re.compile(
    rb"""type\s*=\s*["']?password|<title>[^<]{0,80}\b(?:log|sign)[ -]?(?:in|on)\b""", re.IGNORECASE
)
_LOGIN_ADDRESS: Final = re.compile(r"log-?in|sign-?in|\bsso\b|oauth|saml|authorize", re.IGNORECASE)
_ABOUT_ACCESS: Final = re.compile(
    r"\bauth|unauthori[sz]ed|not authori[sz]ed|log(?:ged)? ?in|credential|\btoken\b|session|password|permission|"
    r"access denied|forbidden", re.IGNORECASE,
)  # fmt: skip
_NOT_SPOKEN: Final = ("negotiate", "ntlm", "kerberos")
_SCHEME: Final = re.compile(r"(?:^|,)\s*([A-Za-z][A-Za-z0-9-]{0,31})(?=\s|,|$)")
_TOO_LARGE: Final = re.compile(r"^larger than |methods to offer, more than ")
_BROKEN: Final = ", broken JSON: "
"""Words of an answer that is meant to be JSON."""

NEEDS_TOKEN: Final = Diagnosis("It lists its methods only to callers with a token.", "Give one with --token-file.")
Rule: TypeAlias = Callable[[Trouble], Diagnosis | Question | None]


async def diagnose(trouble: Trouble, elsewhere: Elsewhere) -> Diagnosis:
    """Return the first cause that holds."""
    for rule in _RULES:
        found = rule(trouble)
        if found is not None and not isinstance(found, Diagnosis):
            found = await found(elsewhere)
        if found is not None:
            return trouble.clean(found)
    return trouble.clean(_not_json_rpc(trouble))


def known_diagnosis(trouble: Trouble | None) -> tuple[dict[str, str], str]:
    """Return ``cause`` and ``next`` that :func:`diagnose` finds without a request, for the log and ``/status``, and the
    rules that found them."""
    if trouble is None:
        return {}, ""
    asks = (mcp_server, _redirected)  # nearly all
    rules = [rule for rule in (*_RULES, _not_json_rpc) if rule not in asks]
    found = [(rule, one) for rule in rules if (one := rule(trouble)) is not None]
    rule, known = next((rule, one) for rule, one in found if isinstance(one, Diagnosis))
    first, is_certain = found[0][0], isinstance(found[0][1], Diagnosis)
    names = f"{first.__name__} {known.rule or rule.__name__}"
    known = trouble.clean(known)
    more = "Run `check`, which finds out more."
    return {"cause": known.cause, "next": known.next if is_certain else more}, names


def _no_credential(trouble: Trouble) -> Diagnosis | None:
    if trouble.credential is None:
        return None
    cause = f"The gateway gets no credential for the service: {trouble.credential.reason}."
    busy = trouble.credential.busy
    return Diagnosis(cause, "Try again later." if busy else correct_credentials(trouble.settings))


def _faulty_file(trouble: Trouble) -> Diagnosis | None:
    if trouble.settings.backend.listing.dialect != "static" or any(step.answer.away for step in trouble.steps):
        return None
    faults = "\n".join(map(str, trouble.steps))
    return Diagnosis(faults, "Correct the file, as docs/listings.md shows.", in_file=True)


def _redirect(trouble: Trouble) -> Diagnosis | None:
    http = trouble.http
    location = http.headers.get("Location", "") if 300 <= http.status < 400 else ""
    if not location:
        return None
    target = urljoin(trouble.url, location).partition("#")[0]
    if _LOGIN_ADDRESS.search(urlsplit(target).path):
        cause = f"It redirects to a login page (HTTP {http.status}, to {shown(target)})."
        return Diagnosis(cause, _set_credentials(trouble))
    if urlsplit(target).scheme not in ("http", "https"):
        return None
    if target == trouble.url:
        step = f"If it wants https in front, set {trouble.knob} to the https:// address of the proxy."
        if "Set-Cookie" in http.headers:
            credentials = trouble.settings.knob("backend.credentials")
            step = f"It may want its cookie back, as after a login: set {credentials}.mode: login"
        return Diagnosis(f"It redirects to itself (HTTP {http.status}).", step)
    cause = f"It redirects elsewhere (HTTP {http.status}). The target is {shown(target)}."
    return Diagnosis(cause, f"{set_knob(trouble.knob, target)}, if the service is there.")


def _said(trouble: Trouble) -> Diagnosis | None:
    return of_answer(trouble, trouble.http)


def _denied(trouble: Trouble) -> Diagnosis | None:
    step = next((step for step in trouble.calls if step.answer.denied), None)
    if any(step.answer is HELD_BACK for step in trouble.steps):
        choose = f"Set {trouble.settings.knob('backend.listing.dialect')}: drupal, to offer all that jsonrpc lists, or"
        cause = "jsonrpc_mcp refuses these credentials its list, and jsonrpc gives its own."
        return Diagnosis(cause, f"{choose} use credentials that jsonrpc_mcp accepts.")
    return None if step is None else _access(trouble, step)


def _error_about_access(trouble: Trouble) -> Diagnosis | None:
    """Find JSON-RPC errors about access. An unknown method is no such error."""
    errors = [step for step in trouble.calls if step.answer.error]
    about = [step for step in errors if _ABOUT_ACCESS.search(step.answer.error)]
    return _access(trouble, about[0]) if about and len(about) * 2 > len(errors) else None


def _access(trouble: Trouble, step: Step) -> Diagnosis:
    settings, http = trouble.settings, step.answer.http or trouble.http
    modes = credential_modes(settings)
    schemes = _SCHEME.findall(http.headers.get("WWW-Authenticate", ""))
    scheme = next((word for word in schemes if word.lower() not in _NOT_SPOKEN), schemes[0] if schemes else "")
    said = step.answer.summary + (f": it asks for {scheme}" if scheme else "")
    if http.status == 403 and not step.answer.error and (text := text_of(http)):
        said = f"{said}: {quoted(text)}"
    if scheme.lower() in _NOT_SPOKEN:
        cause = f"It wants a login by {scheme}, which the gateway does not speak ({said})."
        return Diagnosis(cause, "Let it take Basic, a key or a token, too, or put a proxy between that logs in.")
    if modes.lists_per_caller:
        if trouble.has_token:
            cause = f"It does not accept this token, or lists no methods for its bearer ({said})."
            return Diagnosis(cause, "Use the token of a caller who may list its methods.")
        return NEEDS_TOKEN
    mode = modes.effective_listing
    if mode.name == "none":
        fitting = f" For {scheme} that is mode: {scheme.lower()}." if scheme.lower() in ("basic", "digest") else ""
        return Diagnosis(f"It wants credentials, and none are sent ({said}).", _set_credentials(trouble) + fitting)
    rights = ", or they lack the right to list" if http.status == 403 else ""
    return Diagnosis(f"It refuses the credentials that are sent{rights} ({said}).", correct_credentials(settings))


def _too_large(trouble: Trouble) -> Diagnosis | None:
    said = (step.answer.summary for step in trouble.steps)
    cause, _, remedy = next(filter(_TOO_LARGE.search, said), "").partition("; ")
    remedy = remedy or f"save what is needed of it in a file: {trouble.settings.knob('backend.listing.file')}"
    return Diagnosis(f"Its listing is too large: {cause}.", sentence(remedy)) if cause else None


def _slow(trouble: Trouble) -> Diagnosis | None:
    if not any(step.answer.late for step in trouble.steps) or any(step.answer.error for step in trouble.calls):
        return None
    listing, knob, how = trouble.settings.backend.listing, trouble.settings.knob("backend.listing.timeout"), "raise"
    cause = "It accepts the connection, but does not answer in time."
    if listing.dialect == "auto":
        how = f"set {trouble.settings.knob('backend.listing.dialect')}: one question may then take all of"
    return Diagnosis(cause, f"If it is only slow, {how} {knob}, which is {format_duration(listing.timeout)}.")


def _broken_json(trouble: Trouble) -> Diagnosis | None:
    """Find a service that speaks JSON-RPC, and whose listing is broken JSON."""
    if not any(step.answer.error for step in trouble.calls):
        return None
    broken = (step for step in (*trouble.calls, *trouble.steps) if _BROKEN in step.answer.summary)
    return next((_of_broken_json(str(step)) for step in broken), None)


def _of_broken_json(said: str) -> Diagnosis:
    step = "Correct the service: it must send JSON in UTF-8, and only that."
    return Diagnosis(f"It answers with broken JSON: {said}.", step)


def _other_dialect(trouble: Trouble) -> Question | None:
    """Ask for a listing in another dialect than the one that is named."""
    named, knob = trouble.settings.backend.listing.dialect, trouble.settings.knob("backend.listing.dialect")
    if named == "auto" or (named == "custom" and _error_about_access(trouble)):
        return None

    async def ask(elsewhere: Elsewhere) -> Diagnosis | None:
        try:
            listing = await elsewhere.probe_listing()
        except NoListing:
            return None
        return Diagnosis(f"It does not speak {named}, but {listing.dialect}.", f"Set {knob}: {listing.dialect}")

    return ask


def _drupal(trouble: Trouble) -> Diagnosis | None:
    """Find Drupal without a module that lists methods."""
    if not any(step.answer.http is not None and is_of_drupal(step.answer.http) for step in trouble.steps):
        return None
    if any(step.answer.error for step in trouble.calls):
        cause = f"This is Drupal, and its module jsonrpc_discovery is off: {DRUPAL_PATH} is not there."
        return Diagnosis(cause, "drush en jsonrpc_discovery")
    return Diagnosis("This is Drupal, and no module answers at this address.", "drush en jsonrpc jsonrpc_discovery")


def _other_address(trouble: Trouble) -> Question | None:
    """Find the JSON-RPC endpoint, where the address is not that of one."""
    http = trouble.http
    if trouble.speaks_json_rpc:
        return None
    page = "html" in http.content_type and http.status < 300 and http.start != b""
    login = page and _LOGIN_PAGE.search(http.start) is not None
    if http.status not in (404, 405) and not page:
        return None
    what = "a login page" if login else "a web page" if page else f"HTTP {http.status}"
    cause = f"There is no JSON-RPC endpoint at {_path(trouble.url)}: it answers {what}"

    async def ask(elsewhere: Elsewhere) -> Diagnosis | None:
        if (found := await _at_usual_path(trouble, elsewhere, cause)) is not None:
            return found
        if (found := of_page(trouble, trouble.shown_by_get)) is not None:
            return found
        if login:
            return Diagnosis(f"It answers with a login page (HTTP {http.status}).", _set_credentials(trouble))
        if (socket := websocket(trouble)) is not None and (found := await socket(elsewhere)) is not None:
            return found
        step = f"Set {trouble.knob} to the JSON-RPC endpoint; the service's own documentation has it."
        usual = f"{', '.join(PATHS[1:5])} and {len(PATHS) - 4} others"
        return Diagnosis(f"{cause}, and so do the usual paths ({usual}).", step)

    return ask


def _redirected(trouble: Trouble) -> Question | None:
    """Find an endpoint at a usual path, where host and port alone lead to an interface for people."""
    status = trouble.http.status
    if not 300 <= status < 400 or _path(trouble.url) != "/":
        return None
    cause = f"There is no JSON-RPC endpoint at /: it redirects (HTTP {status})"
    return lambda elsewhere: _at_usual_path(trouble, elsewhere, cause)


async def diagnose_endpoint(trouble: Trouble, elsewhere: Elsewhere, fault: EndpointFault) -> Diagnosis:
    """Return why calls cannot work although there is a listing. ``trouble`` is without steps, and of the address of
    calls."""
    if fault.kind == "refused":
        modes, settings = credential_modes(trouble.settings), trouble.settings
        step = correct_credentials(settings)
        if modes.calls.name == "none":
            step = f"Set {settings.knob('backend.credentials')}."
        return trouble.clean(Diagnosis(f"{fault}.", step))
    found = await _at_usual_path(trouble, elsewhere, str(fault), beside=True)
    step = f"Set {trouble.knob} to the JSON-RPC endpoint; the service's own documentation has it."
    return trouble.clean(found or Diagnosis(f"{fault}. The usual paths are none, either.", step))


async def _at_usual_path(
    trouble: Trouble, elsewhere: Elsewhere, cause: str, *, beside: bool = False
) -> Diagnosis | None:
    """Return what answers at the first of the usual paths that has more than a page or an error. ``beside`` also asks
    the folder of the address, which may be that of a document."""
    answers = await elsewhere.usual_paths(trouble.url, beside=beside)
    for url, http in (answer for answer in answers if is_message(answer[1])):
        there = f"{cause}. There is one at {_path(url)}." if beside else f"{cause}, but {_path(url)} is one."
        found = Diagnosis(there, set_knob(trouble.knob, url))
        return (await mcp_server_at(url, elsewhere) if hints_at_mcp(url, http) else None) or found
    told = ((url, of_answer(trouble, http)) for url, http in answers if http.status in (400, 406, 409))
    return next((Diagnosis(f"At {_path(url)}: {found.cause}", found.next) for url, found in told if found), None)


def _no_listing(trouble: Trouble) -> Diagnosis | None:
    """Find a service that speaks JSON-RPC, and only has no listing that can be read."""
    if not any(step.answer.error or step.answer.summary.startswith("JSON, but ") for step in trouble.calls):
        return None
    listing = trouble.settings.knob("backend.listing")
    if trouble.settings.backend.listing.dialect == "custom":
        cause = "It speaks JSON-RPC, and has no listing where the knobs for dialect: custom look for it."
        return Diagnosis(cause, f"Compare {listing}.custom with what the service answers.")
    what, describe = "It speaks JSON-RPC", "Describe"
    if not any(step.answer.error for step in trouble.calls):
        what, describe = "It answers in JSON", f"If {trouble.knob} is the JSON-RPC endpoint, describe"
    return Diagnosis(
        f"{what}, and does not list its methods in a known form.",
        f"{describe} them in a file: {listing}.dialect: static and {listing}.file; or, if it has a list in a form of "
        f"its own, say how to read that: {listing}.dialect: custom. See docs/listings.md.",
    )


def _not_json_rpc(trouble: Trouble) -> Diagnosis:
    http, correct = trouble.http, f"Set {trouble.knob} to the JSON-RPC endpoint, over HTTP."
    if http.status == 500:
        return Diagnosis("The service fails (HTTP 500).", "Look into the log of the service.")
    if http.content_type.endswith(("/xml", "+xml")):
        return Diagnosis(f"It answers in XML ({http.content_type}), as XML-RPC and SOAP do.", correct)
    if http.status == 400:
        cause = f"It refuses the request (HTTP 400: {quoted(text_of(http))})."
        return Diagnosis(cause, f"Mend that at the service, or set {trouble.knob} to the JSON-RPC endpoint.")
    said = trouble.calls[0].answer.summary if trouble.steps else "there was no answer"
    if _BROKEN in said:
        return _of_broken_json(said)
    return Diagnosis(f"It does not answer as a JSON-RPC service: {said}.", correct)


_RULES: Final[Sequence[Rule]] = (
    _no_credential, _faulty_file, _too_large, other_scheme, not_http, unreachable, _redirected, _redirect, stateful,
    mcp_server, _said, _denied, _slow, _broken_json, _other_dialect, _drupal,
    _error_about_access, web_api, _other_address, websocket, refuses_all, product, _no_listing,
)  # fmt: skip


def _set_credentials(trouble: Trouble) -> str:
    knob = trouble.settings.knob
    return f"Set {knob('backend.credentials')}, or {knob('backend.listing.credentials')} for the listing alone."


def _path(url: str) -> str:
    return urlsplit(shown(url)).path or "/"
