"""Find out why there is no connection: the scheme, the address, a proxy, a certificate."""

import os
from typing import Final
from urllib.parse import urlsplit

from gateway.diagnosis.trouble import Diagnosis, Elsewhere, Question, Trouble, certificate_of, is_message
from gateway.text import excerpt, masked_url

_REMEDIES: Final = {
    "no TLS connection in time": "if it has no TLS, use http://; else check the firewalls on the way",
    "its name cannot be resolved": "correct the name of the host",
    "its TLS certificate is for another name": "use a name of the host that its certificate has",
    "its TLS certificate has expired, or is not valid yet": "renew the certificate of the service",
}
_PROXY_VARIABLES: Final = ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy")


def other_scheme(trouble: Trouble) -> Question | None:
    """Find an address with http for https, ws for wss, or the reverse."""
    parts, first = urlsplit(trouble.url), trouble.calls[0].answer if trouble.steps else None
    if first is None or first.late or trouble.settings.backend.wire == "stream":
        return None
    if is_tls := parts.scheme in ("https", "wss"):
        suspicious = first.unreachable and first.summary.startswith(("TLS failed", "no TLS connection"))
    else:  # a TLS server closes the connection, or complains in plain text, mostly with HTTP 400
        suspicious = not first.unreachable and (first.http is None or (first.http.status == 400 and not first.error))
    other = parts._replace(scheme=parts.scheme[:-1] if is_tls else f"{parts.scheme}s").geturl()
    over_http = other.replace("ws", "http", 1) if other.startswith("ws") else other

    async def ask(elsewhere: Elsewhere) -> Diagnosis | None:
        if not await elsewhere.speaks(over_http):
            return None
        cause = "speaks HTTP without TLS" if is_tls else "speaks TLS"
        is_http = over_http != other and is_message(await elsewhere.facts(over_http))
        return Diagnosis(f"{trouble.place} {cause}.", set_knob(trouble.knob, over_http if is_http else other))

    return ask if suspicious else None


def unreachable(trouble: Trouble) -> Diagnosis | Question | None:
    step = next((step for step in trouble.steps if step.answer.unreachable), None)
    if step is None:
        return None
    # Of the HTTP client: what is wrong, then maybe what to do about it.
    cause, _, remedy = step.answer.summary.partition("; ")
    what, place, knob, proxy = "service", trouble.place, trouble.knob, trouble.settings.backend.proxy
    if proxy is not None:
        what, place, knob = "proxy", urlsplit(proxy).netloc, trouble.settings.knob("backend.proxy")
    unread = next((name for name in _PROXY_VARIABLES if os.environ.get(name)), "") if proxy is None else ""
    if unread:
        unread = f" {unread} is not read: if a proxy is on the way, set {trouble.settings.knob('backend.proxy')}."
    if cause == "connection refused":
        remedy = f"Start the {what}, or set {knob} to where it listens.{unread}"
        return Diagnosis(f"Nothing listens at {place}.", remedy)
    remedy = _REMEDIES.get(cause, remedy) or f"check {knob}, and that this machine can reach the {what}"
    found = Diagnosis(f"{place} cannot be used: {cause}.", sentence(remedy) + unread)
    return (lambda _: _with_certificate(trouble, found)) if proxy is None and "certificate" in cause else found


async def _with_certificate(trouble: Trouble, found: Diagnosis) -> Diagnosis:
    """Add what the certificate is for, and how to pin it."""
    tls, (names, pin, expired) = trouble.settings.knob("backend.tls"), await certificate_of(trouble.url)
    if not pin:
        return found
    cause = f"{found.cause} It is for {', '.join(names) or 'no name'}{expired and f', and has {expired}'}."
    if "another name" in cause:
        return Diagnosis(cause, f"{found.next[:-1]}, or set {tls}.server_name: {[*names, '…'][0]}")
    if "is not trusted" in cause:
        return Diagnosis(cause, f"{found.next} For one appliance: {tls}.fingerprint: {pin}")
    return found


def set_knob(knob: str, url: str) -> str:
    return f"Set {knob} to {shown(url)}"


def shown(url: str) -> str:
    """Return an address, maybe of the service's choice, without tokens and safe to print."""
    return excerpt(masked_url(url), 300)


def sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + "."
