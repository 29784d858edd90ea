"""Say whether the store answers, and where it does not, the one cause and the next step."""

import re
from typing import Final

from gateway.diagnosis.trouble import Diagnosis
from gateway.settings.store import StoreSettings
from gateway.store.choice import PER_PROCESS, make_store

CAUSES: Final = (
    ("Authentication", "It refuses the user or the password.", "Correct store.password, and the user in store.url."),
    ("NoPermission|can't publish", "Its user lacks a right.", "Give it the rights that docs/deployment.md names."),
    ("certificate verify", "Its TLS certificate is not trusted.", "Set store.ca_file to the authority that signed it."),
    (r"Error -\d", "The name of its host cannot be resolved.", "Correct the host in store.url."),
    ("Error 111|Connect call failed", "Nothing listens there.", "Start Redis, or correct host and port in store.url."),
    ("DB index", "It has no database of this number.", "Correct the number at the end of store.url."),
    ("'SENTINEL'", "It is no Sentinel.", "If it is the Redis itself, set store.url to redis://{}"),
    ("No master found", "Its Sentinels know no master of this name.", "Correct the name in store.url."),
    ("'EVALSHA'", "It has no scripts: it may be a Sentinel.", "If so, set store.url to redis+sentinel://{}/NAME/0"),
    ("read only replica", "It is a replica, which takes no writes.", "Set store.url to its master."),
    ("", "It does not answer as Redis does.", "Set store.url to a Redis."),
)
"""Words of the Redis client, the first that fit, with cause and next step."""
_LATE: Final = "no answer within"


async def check_store(settings: StoreSettings) -> tuple[str, Diagnosis | None]:
    """Return whether the store answers, and what to do where it does not. A late response is no failure: a gateway
    starts without the store. Raises :class:`~gateway.store.StoreFault` for settings that no store can be made of."""
    reason = await _why_unavailable(settings)
    if _LATE in reason:  # on a busy machine, even a refusal may come late
        reason = await _why_unavailable(settings)
    if not settings.is_shared:
        return f"in memory: {PER_PROCESS} are of each process", None
    said = f"{settings.url} {re.sub('^the store |[A-Za-z]+Error: ', '', reason) or 'answers'}"  # no names of Python's
    if not reason or _LATE in reason:
        return said, None
    words, cause, step = next(row for row in CAUSES if re.search(row[0], reason))
    how, other = ("without", "redis") if settings.url.startswith("rediss") else ("with", "rediss")
    url = re.sub("^rediss?", other, settings.url)
    if not words and re.search("^$|Authentication|NoPermission|certificate", await _why_unavailable(settings, url)):
        cause, step = f"It speaks Redis {how} TLS.", f"Set store.url to {url}"
    return said, Diagnosis(cause, step.format(re.split("[/,]", settings.url)[2]))


async def _why_unavailable(settings: StoreSettings, url: str = "") -> str:
    """Return why the store does not answer, "" where it does."""
    store = make_store(settings.model_copy(update={"url": url or settings.url}))
    await store.open()
    reason = store.problem.cause
    await store.close()
    return reason
