"""Write the audit: a JSON line for each invocation of a tool that ran or may have run, and for each refused one.

docs/audit.md says what the lines mean, ``config/audit.schema.json`` what form they have. With ``required``, a line
``begun`` is in the file before the call is sent, so that a process that is killed loses no call that was begun.
No token gets here: of a caller the line has what its token says.
"""

import asyncio
import hashlib
import os
import re
import stat
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Any, Final, Literal, TypeAlias

import structlog
from msgspec import UNSET, Struct, UnsetType

from gateway import jsonrpc
from gateway.errors import AuditUnavailable
from gateway.settings.server import AuditSettings
from gateway.telemetry import record as records
from gateway.telemetry.lines import Lines
from gateway.telemetry.logs import encode_line
from gateway.telemetry.record import CALL, OK, SINKS, Record, new_id
from gateway.telemetry.sampling import Sampler
from gateway.telemetry.trace_context import trace_id

VERSION: Final = 1
"""The version of ``config/audit.schema.json``. A member that is new does not change it."""
STDOUT: Final = "stdout"
MAX_ARGUMENTS: Final = 16 * 1024
"""Bytes of a call's arguments as JSON. Of larger ones a line has the digest and the size."""
WRITE_TIMEOUT: Final = 5.0
"""Seconds that a call waits for its line ``begun``."""
_TOO_LONG: Final = f"it took longer than {WRITE_TIMEOUT:g} s: nobody reads the pipe, or the disk hangs"
_SAMPLED: Final = 10.0
"""Seconds in which each failure has one line in the log."""
MASK: Final = "***"
_SECRET_NAME: Final = re.compile(
    r"(?i)passw|passphrase|secret|token|api_?-?key|authori[sz]ation|credential|private_?-?key|cookie|session_?-?id"
)
_SIGNED_TOKEN: Final = re.compile(r"eyJ[\w-]{8,}\.[\w-]+\.[\w-]*")
"""A signed token (RFC 7515 §3.1), wherever it stands in a text."""
EXCERPT: Final = 1024
"""Bytes of a call's arguments, or of its result, in a span."""

Shown: TypeAlias = Literal["none", "digest", "named", "all"]

log = structlog.get_logger()


class Audit:
    """Write to the file ``to``, or to standard output. ``shown`` says what a line has of the arguments. With
    ``required`` a call is not sent before its line ``begun`` is written. Raises :class:`OSError` where the file cannot
    be opened and written."""

    def __init__(self, to: str, shown: Shown = "none", *, required: bool = False) -> None:
        self.required = required
        self._to = to
        self._shown = shown
        self._told = 0
        self._refusals, self._failures, self._losses = (Sampler(1, _SAMPLED) for _ in range(3))
        self._deletions = Sampler(1, _SAMPLED)
        self._descriptor = os.dup(1) if to == STDOUT else _open(to)
        status = os.fstat(self._descriptor)
        self._had_name = to != STDOUT and status.st_nlink > 0
        self._lines = Lines(
            self._descriptor,
            self._lost_line,
            shares=_may_be_full(self._descriptor),
            prepare=self._replace_deleted,
            failed=self._note_failure,
        )
        try:
            self._lines.put_at_once(encode_line(_event("opened", process=os.getpid()))).result(WRITE_TIMEOUT)
        except (OSError, TimeoutError) as error:
            self.close()
            raise error if isinstance(error, OSError) else OSError(_TOO_LONG) from None

    @property
    def lost(self) -> int:
        """Return how many lines could not be written."""
        return self._lines.lost

    def note_call(self, record: Record, method: str, arguments: Mapping[str, Any], named: Collection[str]) -> None:
        """Note the service's ``method``, and what the line will have of the arguments: they may be gone at the end.
        ``named`` are the arguments whose values ``named`` shows."""
        record.rpc_method = method
        if self._shown != "none":
            record.arguments = _shown_arguments(self._shown, arguments, named)

    async def begin(self, record: Record) -> None:
        """Write the line ``begun`` of a call that is about to be sent. Raise :class:`AuditUnavailable` where that
        fails, or takes longer than :data:`WRITE_TIMEOUT`."""
        record.call_id = new_id()
        if records.decide is not None:
            records.decide(record)  # before the line, which has the id of the trace
        line = encode_line(_call("begun", record))
        written = self._lines.put_at_once(line)
        try:
            async with asyncio.timeout(WRITE_TIMEOUT):
                await asyncio.wrap_future(written)
        except (OSError, TimeoutError) as error:
            record.call_id = ""
            reason = _TOO_LONG if isinstance(error, TimeoutError) else _reason(error)
            if (more := self._refusals.admit(reason)) is not None:
                log.error(
                    "a call is refused, because the audit cannot be written", reason=reason, file=self._to, **more
                )
            raise AuditUnavailable(
                "This call cannot be recorded now, so it was not sent. Try again later", retry_after=int(WRITE_TIMEOUT)
            ) from None
        finally:
            written.cancel()  # one that was given up is not written later
            del written  # its error refers to this frame: together they would hold the call for thousands of others

    def end(self, record: Record) -> None:
        """Write the line of a call that has ended, or was refused."""
        if record.method != CALL:
            return
        call = _call("ended" if record.call_id else "call", record)
        call.outcome = record.outcome or OK
        call.sent = record.sent_at > 0 or bool(record.earlier)
        call.ms = int(record.seconds * 100_000) / 100
        if not self._lines.put(encode_line(call)):
            self._tell_lost()

    def reopen(self) -> None:
        """Open the file anew, which a rotation renamed. What was written before stays in the old file. Where it cannot
        be opened, the lines go on into the old one, and the log says so."""
        if self._to == STDOUT:
            return
        try:
            descriptor = _open(self._to)
        except OSError as error:
            reason = _reason(error)
            if (more := self._failures.admit(f"opened anew: {reason}")) is not None:
                log.error(
                    "the audit cannot be opened anew, and goes on in the old file", reason=reason, file=self._to, **more
                )
            return
        self._use(descriptor)

    def _use(self, descriptor: int) -> None:
        os.dup2(descriptor, self._descriptor, inheritable=False)  # at once, for a thread that is writing
        os.close(descriptor)
        self._lines.shares = _may_be_full(self._descriptor)

    def close(self) -> None:
        """Write what waits, for half a second, and close the file. What is left then is lost."""
        if self._lines.close():
            os.close(self._descriptor)
        # Else the thread may still be in a write, and must not meet another file by this number.
        self._losses = Sampler(1, _SAMPLED)
        self._tell_lost()

    def _lost_line(self, lines: int) -> str:
        self._tell_lost()
        return encode_line(_event("lost", lines=lines)).decode()

    def _tell_lost(self) -> None:
        lines = self.lost - self._told
        if lines and (more := self._losses.admit()) is not None:
            self._told += lines
            log.error("lines of the audit were lost, they could not be written", lines=lines, **more)

    def _note_failure(self, error: OSError) -> None:
        reason = _reason(error)
        if (more := self._failures.admit(reason)) is not None:
            log.error("the audit cannot be written", reason=reason, file=self._to, **more)

    def _replace_deleted(self) -> None:
        """Open the file anew where somebody deleted it: what is written to it is gone. Raise :class:`OSError` where
        that fails, so that no call takes its line there for written."""
        if self._had_name and os.fstat(self._descriptor).st_nlink == 0:
            if (more := self._deletions.admit()) is not None:
                log.error("the file of the audit was deleted, and is opened anew", file=self._to, **more)
            # Who reads a pipe makes it anew, and finds no room for it where a file stands.
            self._use(_open(self._to, 0 if self._lines.shares else os.O_CREAT))


active: Audit | None = None
"""The audit of this process, if there is one. Each call looks at it, so it is read without a function."""


class TelemetryFault(Exception):
    """Raised where the audit or the traces cannot start. Its text names the knob, or the variable, and the remedy."""


def start(knobs: AuditSettings) -> None:
    """Have each record that ends from now on reach the audit, if settings name one. Raises :class:`TelemetryFault`."""
    global active
    if knobs.to is None:
        return
    stop()
    try:
        active = Audit(knobs.to, knobs.arguments, required=knobs.required)
    except OSError as error:
        raise TelemetryFault(
            f"telemetry.audit.to: {knobs.to}: {_reason(error)}. Name a file that this user may write, in a folder that "
            "exists, on a disk with room"
        ) from None
    SINKS.append(active.end)


def stop() -> None:
    """Write what waits, and end the audit, if there is one."""
    global active
    if active is not None:
        SINKS.remove(active.end)
        active.close()
        active = None


class _Call(Struct, gc=False):
    """Hold the members of a call's line, in their order."""

    version: int
    time: datetime
    event: str
    request_id: str
    trace_id: str
    service: str
    surface: str
    tool: str
    method: str
    issuer: str
    subject: str
    client_id: str
    client: str
    address: str
    consent: dict[str, Any] | None
    call_id: str | UnsetType = UNSET
    arguments: Mapping[str, Any] | UnsetType = UNSET
    coerced: int | UnsetType = UNSET
    outcome: str | UnsetType = UNSET
    sent: bool | UnsetType = UNSET
    ms: float | UnsetType = UNSET


def _call(event: str, record: Record) -> _Call:
    consent: dict[str, Any] | None = None
    if record.consent:
        consent = {"subject": record.subject, "time": datetime.fromtimestamp(record.consent, UTC)}
    return _Call(
        VERSION,
        datetime.now(UTC),
        event,
        record.request_id,
        trace_id(record.trace) if record.trace else "",
        record.service,
        record.surface,
        record.tool[:MAX_NAME],
        record.rpc_method,
        record.issuer,
        record.subject,
        record.client_id,
        record.client if isinstance(record.client, str) else "",
        record.address,
        consent,
        record.call_id or UNSET,
        UNSET if record.arguments is None else record.arguments,
        record.coerced or UNSET,
    )


def _event(event: str, **fields: int) -> dict[str, Any]:
    return {"version": VERSION, "time": datetime.now(UTC), "event": event, **fields}


MAX_NAME: Final = 128
"""Characters of a tool's name, which may be one that a stranger made up."""


def _shown_arguments(shown: Shown, arguments: Mapping[str, Any], named: Collection[str]) -> Mapping[str, Any]:
    if shown == "digest":
        return _digest(jsonrpc.encode_canonical(arguments))
    chosen = arguments if shown == "all" else {name: arguments[name] for name in named if name in arguments}
    cleaned: dict[str, Any] = _clean(chosen)
    raw = jsonrpc.encode(cleaned)
    return cleaned if len(raw) <= MAX_ARGUMENTS else _digest(jsonrpc.encode_canonical(arguments))


def _digest(canonical: bytes) -> dict[str, Any]:
    """Return the SHA-256 of arguments as JSON with sorted members, and its size in bytes."""
    return {"sha256": hashlib.sha256(canonical).hexdigest(), "bytes": len(canonical)}


def _clean(value: Any) -> Any:
    """Return a value without those of members whose names say that they are secret, and without signed tokens."""
    if isinstance(value, Mapping):
        return {name: MASK if _SECRET_NAME.search(name) else _clean(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(member) for member in value]
    return _SIGNED_TOKEN.sub(MASK, value) if isinstance(value, str) else value


def excerpt(value: Any) -> str:
    """Return the beginning of a value as JSON, cleaned as in the audit: :data:`EXCERPT` bytes. Of a large one it is the
    size, and of one that is no JSON nothing."""
    try:
        raw = jsonrpc.encode(value)
    except (TypeError, ValueError):
        return ""
    if len(raw) > MAX_ARGUMENTS:
        return f"({len(raw)} bytes)"
    return jsonrpc.encode(_clean(jsonrpc.decode(raw)))[:EXCERPT].decode("utf-8", "ignore")


def _open(path: str, creates: int = os.O_CREAT) -> int:
    # Where nobody reads a pipe, neither this nor a write may wait.
    return os.open(path, os.O_WRONLY | os.O_APPEND | creates | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)


def _may_be_full(descriptor: int) -> bool:
    """Return whether a write may find no room, as in a pipe, where other processes write, too."""
    return not stat.S_ISREG(os.fstat(descriptor).st_mode)


def _reason(error: BaseException) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
