"""Find out why there is no connection: the scheme, the address, a proxy, a certificate."""

import os
from typing import Final
from urllib.parse import urlsplit

from gateway.diagnosis.trouble import Diagnosis, Elsewhere, Question, Trouble
from gateway.text import excerpt, masked_url, printable

_SHOWN: Final = 300
_REMEDIES: Final = {
    "its name cannot be resolved": "correct the name of the host",
    "its TLS certificate is for another name": "use a name of the host that its certificate has",
    "its TLS certificate has expired, or is not valid yet": "renew the certificate of the service",
}
_PROXY_VARIABLES: Final = ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy")


def other_scheme(trouble: Trouble) -> Question | None:
    """Find an address with http for https, or the reverse."""
    parts, first = urlsplit(trouble.url), trouble.calls[0].answer if trouble.steps else None
    if first is None or first.late or trouble.settings.backend.wire != "http":
        return None
    if parts.scheme == "https":
        suspicious = first.unreachable and first.summary.startswith("TLS failed")
    else:  # a TLS server closes the connection, or complains in plain text, mostly with HTTP 400
        suspicious = not first.unreachable and (first.http is None or (first.http.status == 400 and not first.error))
    other = parts._replace(scheme="http" if parts.scheme == "https" else "https").geturl()

    async def ask(elsewhere: Elsewhere) -> Diagnosis | None:
        if not await elsewhere.speaks(other):
            return None
        cause = "speaks HTTP without TLS" if parts.scheme == "https" else "speaks TLS"
        return Diagnosis(f"{trouble.place} {cause}.", set_knob(trouble.knob, other))

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
        return Diagnosis(
            f"Nothing listens at {place}.", f"Start the {what}, or set {knob} to where it listens.{unread}"
        )
    remedy = _REMEDIES.get(cause, remedy) or f"check {knob}, and that this machine can reach the {what}"
    found = Diagnosis(f"{place} cannot be used: {cause}.", sentence(remedy) + unread)
    return _certificate(trouble, found) if proxy is None and "certificate" in cause else found


def _certificate(trouble: Trouble, found: Diagnosis) -> Question:
    """Add what the certificate is for, and how to pin it."""
    tls = trouble.settings.knob("backend.tls")

    async def ask(elsewhere: Elsewhere) -> Diagnosis:
        names, digest = await elsewhere.certificate(trouble.url)
        if not digest:
            return found
        cause = f"{found.cause[:-1]}. It is for {', '.join(names) or 'no name'}."
        if "another name" in found.cause:
            return Diagnosis(cause, f"{found.next[:-1]}, or set {tls}.server_name: {names[0] if names else '…'}")
        if "is not trusted" in found.cause:
            return Diagnosis(cause, f"{found.next} For one appliance: {tls}.fingerprint: {digest}")
        return found

    return ask


def set_knob(knob: str, url: str) -> str:
    return f"Set {knob} to {shown(url)}"


def shown(url: str) -> str:
    """Return an address, maybe of the service's choice, without tokens and safe to print."""
    return excerpt(printable(masked_url(url)), _SHOWN)


def sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + "."
