"""Name every event of the log: its level, its fields, what it means, and what to do. docs/logs.md is made of this.

A test finds every call of a logger and compares it with :data:`EVENTS`. In a name, "…" stands for words that differ.
"""

from typing import Final, NamedTuple


class Event(NamedTuple):
    """Describe an event. ``fields`` are names in :data:`FIELDS`, separated by spaces, ``meaning`` is Markdown."""

    name: str
    level: str
    fields: str
    meaning: str


FIELDS: Final = {
    "address": "the caller's address",
    "admin_port": "the admin port",
    "again": "whether the call is sent again",
    "alone": "whether each message has a connection of its own",
    "always_params": "whether each message has `params`",
    "asked": "what the knob says",
    "attempts": "how often it failed in a row",
    "bytes": "bytes of it",
    "cause": "the exception",
    "changed": "of a listing, whether the tools differ; of a reload, the knobs",
    "code": "the code of the JSON-RPC error",
    "content_type": "the media type of the response",
    "dialect": "the listing's [dialect](dialects.md)",
    "divided": "knobs whose value the workers divide among them",
    "ended": "how many",
    "error": "what failed",
    "exc_info": "the exception; written as `exception`, with its traceback",
    "exit_code": "the process's exit code; 128 and the number of the signal that ended it",
    "fault": "the [code of the error](http.md#errors) that the caller gets",
    "faults": "each fault of the configuration",
    "file": "the file",
    "framing": "how messages are told apart on a stream",
    "gone": "names of tools that are gone",
    "host": "the address that the port is bound to",
    "ignored": "keys that cannot be used, with the reason",
    "in_order": "whether answers come without ids, in order",
    "integer_ids": "whether ids are integers",
    "issuer": "the issuer",
    "keys": "how many keys",
    "knob": "the knob",
    "left": "bytes that are left of the batch's",
    "limit": "open files that the system allows",
    "lines": "how many lines",
    "listed": "how many tools were listed",
    "logger": "the logger of the library",
    "max_connections": "how many connections are allowed",
    "message": "its words, cleaned",
    "method": "the service's method, or MCP's",
    "more": "how many more there are, unnamed",
    "more_gone": "how many more are gone",
    "more_new": "how many more are new",
    "more_since_last": "how many lines like this one were left out since the last",
    "more_tools": "how many more there are",
    "most": "the maximum",
    "ms": "milliseconds",
    "new": "names of tools that are new",
    "next": "what to do next",
    "of_each_process": "what each process has for itself",
    "of_each_worker": "what each worker has for itself",
    "open": "how many connections are open",
    "path": "the path of the request",
    "policy": "its `maxmemory-policy`",
    "port": "the port",
    "process": "the process id",
    "proxy": "the address of a proxy",
    "purpose": "what it was for",
    "quarantined": "how many methods are left out because they cannot be used",
    "reason": "why",
    "refused": "how many were refused",
    "remark": "what is remarkable, and the knob",
    "remedy": "what to do",
    "replicas": "what the replicas share now",
    "retry_after": "seconds after which to come again",
    "seconds": "seconds that it lasted",
    "sent_again_after": "the time until it is sent again",
    "serving": "what is served meanwhile",
    "silent_for": "seconds since its last report",
    "spans": "how many spans",
    "starts_in": "seconds until it is started again",
    "status": "the status of HTTP",
    "steps": "what was tried, and what came of it",
    "structure": "by-name or by-position",
    "tool": "the tool",
    "tools": "how many tools, or their names",
    "unprintable": "the type of the exception that writing it raised",
    "value": "what was read",
    "version": "the version of JSON-RPC",
    "where": "where it was raised",
    "work": "the work's name",
    "worker": "the number of the worker",
    "workers": "how many workers",
}
"""What each field of an event means."""

EVENTS: Final = (
    # The process
    Event("gateway started", "info", "host port admin_port max_connections workers", "Both ports are open."),
    Event("stopping", "info", "reason", "It was told to end. Requests under way are finished."),
    Event("stopped", "info", "", "It has ended."),
    Event("several workers", "info", "divided of_each_worker", "It starts `server.workers` processes."),
    Event("worker started", "info", "port max_connections", "A worker serves."),
    Event("a worker cannot be started", "error", "worker reason", "The system refuses a process. It is tried again."),
    Event("a worker ended and is replaced", "error", "worker exit_code starts_in", "Look at the lines before it."),
    Event("a worker hangs and is killed", "error", "worker process silent_for", "It did not report for 8 s: its event "
          "loop was blocked. Report this with the lines before it."),
    Event("a worker fails again and again: its socket is closed until it serves", "error", "worker",
          "No worker serves. Connections are refused at once. Look at why the workers end."),
    Event("the socket of a worker cannot be replaced", "error", "worker reason", "Connections wait for this worker."),
    Event("other workers accept its connections", "warning", "worker reason", "The worker does not answer now."),
    Event("the parent of this worker is gone", "error", "", "The worker ends, too."),
    Event("workers did not end in time, and are killed", "error", "workers", "Their requests lasted longer than "
          "`server.shutdown_timeout`."),
    Event("background work ended unexpectedly", "error", "work starts_in exc_info", "It is started again. Report it."),
    Event("internal error", "error", "method path tool exc_info", "A fault of the gateway: the caller got "
          "`internal_error`. Report it, with the traceback."),
    Event("exception ignored", "error", "where exc_info", "A finalizer raised. Report it."),
    Event("library", "warning", "logger message cause exc_info unprintable", "A library logs, as a warning or as an "
          "error."),
    Event("log lines were lost, they could not be written", "error", "lines", "The disk is full, or nobody reads "
          "standard error fast enough."),
    Event("a call is refused, because the audit cannot be written", "error", "file reason more_since_last",
          "Make room, or give the "
          "gateway's user the right to write: with `telemetry.audit.required` no call is made meanwhile."),
    Event("the audit cannot be written", "error", "file reason more_since_last", "Make room. It is tried again."),
    Event("lines of the audit were lost, they could not be written", "error", "lines more_since_last", "As for the "
          "log."),
    Event("spans were lost, the collector did not take them", "warning", "spans", "Of all that the process "
          "made, told at its end. Look into the log of the collector."),
    Event("the file of the audit was deleted, and is opened anew", "error", "file more_since_last", "Rotate it as "
          "[audit.md](audit.md#rotation) says. What it had is gone."),
    Event("the audit cannot be opened anew, and goes on in the old file", "error", "file reason more_since_last",
          "After SIGHUP, or when it was deleted. Look at the folder's rights, then send SIGHUP."),
    # Configuration
    Event("remark on the configuration", "warning", "remark", "It is valid, but perhaps not what you want."),
    Event("configuration reloaded", "info", "changed", "What changed is in force."),
    Event("configuration refused, the old one stays", "error", "faults", "Correct the file. `/readyz` says it, too."),
    Event("knob keeps its old value until a restart", "warning", "knob", "Restart to apply it."),
    Event("a file changed that is read at the start: restart to use it", "warning", "knob file", "Restart."),
    Event("a watched file is gone: put it back, or change the knob", "warning", "knob file", "What was read is used. "
          "Keys of a key file are revoked after 60 s."),
    Event("a key file is gone: its keys are revoked", "error", "knob file keys", "It was not there, was empty, or "
          "could not be read, for 60 s. Put it back: its keys are good again then."),
    Event("a key file took keys or rights away", "warning", "knob file keys", "What it takes away counts at once, also "
          "where the configuration, or the file itself, has a fault, and while a reload waits. `keys` are those that "
          "ended, or that have fewer scopes or an earlier end."),
    Event("server.max_connections is lowered to what the limit of open files allows", "warning",
          "asked limit max_connections remedy", "Raise the limit of open files."),
    # Connections
    Event("X-Forwarded-For has no address", "warning", "proxy value remedy", "A proxy writes it, or one of "
          "`server.trusted_proxies` passes on what a client wrote. Told once."),
    Event("connection cut", "info", "reason bytes seconds", "A client did not read its response in time."),
    Event("malformed HTTP refused", "warning", "reason more_since_last", "Somebody sends what is not HTTP/1.1, or with "
          "`server.tls` not TLS: then `reason` is OpenSSL's. Each reason has a line."),
    Event("connections that send ahead are ended", "warning", "ended most remedy more_since_last", "Clients send much "
          "before they are answered."),
    Event("… are refused", "warning", "knob most remedy address more_since_last", "Connections, calls, large bodies "
          "and results: a bound is reached, of one address or of all."),
    Event("… are no longer refused", "info", "refused address", "There is room again."),
    Event("no connection can be accepted", "error", "port reason open remedy", "Open files are used up."),
    Event("connections are accepted again", "info", "port", "Files can be opened again."),
    # Callers
    Event("token refused", "info", "reason address more_since_last", "A caller's token is not accepted. "
          "`check --token-file` explains it."),
    Event("proof refused", "info", "reason address more_since_last", "The DPoP proof of a token is not accepted."),
    Event("token cannot be verified", "warning", "reason more_since_last", "An issuer or its keys cannot be reached. "
          "Callers get 503."),
    Event("token verification failed unexpectedly", "error", "exc_info", "Report it."),
    Event("keys of an issuer", "info", "issuer keys ignored", "The keys were fetched."),
    Event("keys of an issuer cannot be fetched", "warning", "issuer reason serving", "It is tried again."),
    Event("keys of an issuer: unexpected failure", "error", "issuer exc_info", "Report it."),
    Event("no notifications of changed tools", "warning", "reason", "`stdio` could not open its stream."),
    # Listings
    Event("listing refreshed", "info", "dialect tools quarantined changed ms", "The service was listed."),
    Event("calls cannot reach the service", "warning", "cause next", "It was listed, but its address is not that of a "
          "JSON-RPC endpoint, or refuses access. Run `check`, which looks for the endpoint."),
    Event("listing failed", "warning", "steps cause next serving attempts", "Run `check`, which explains each step."),
    Event("the old listing and endpoint serve no longer", "info", "",
          "`backend.listing.timeout` after [a reload](lifecycle.md#reload), also for callers who have no new listing."),
    Event("listing failed unexpectedly", "error", "exc_info", "Report it."),
    Event("first tools", "debug", "tools more_tools", "The tools of the first listing."),
    Event("tools changed", "info", "new more_new gone more_gone", "Clients are told."),
    Event("method quarantined", "warning", "method reason remedy more", "It is left out until the remedy is applied."),
    Event("a listing that shrinks is not accepted yet", "warning", "listed tools", "A second listing has to agree."),
    Event("only a part of the methods was described; the rest is asked for again", "warning",
          "reason serving attempts", "Questions were late, limited or failed. Methods that were not described are held "
          "back, or the last whole list is served."),
    Event("the fallback listing is served", "warning", "tools", "The service could not be listed for too long."),
    Event("the listing quotes a credential, which is taken out of it", "warning", "", "Correct the service."),
    Event("a result broke the output schema, which is listed no more", "warning", "method tool", "Correct the schema, "
          "or set `catalog.tools.*.output_schema: false`."),
    Event("the backend ends each connection after one call; each call gets one of its own", "info", "",
          "`backend.calls_per_connection: 1` says it before the first call."),
    Event("form of messages learned", "info", "version integer_ids always_params framing in_order alone",
          "Later messages have it."),
    Event("shape of params learned", "info", "method structure", "Later calls begin with it."),
    # Calls
    Event("request", "info", "", "A request has ended: [the line of a request](#the-line-of-a-request)."),
    Event("tool called through call_tool", "info", "method tool", "Tool search is on."),
    Event("an answer does not fit into its batch", "warning", "bytes left", "Its call was made."),
    Event("backend error", "info", "method code message", "The service answered with an error."),
    Event("backend call failed", "warning", "method reason fault again", "No response of the service came."),
    Event("answer about the listing mended", "warning", "reason",
          "It was no sound JSON; see [mended answers](calling.md#mended-answers). Correct the service."),
    Event("backend answer unusable", "warning", "method status content_type reason", "It is not a JSON-RPC response."),
    Event("the backend is busy", "info", "method status retry_after", "The service said when to come again."),
    Event("the backend takes no connections; calls are refused but for one a second", "error", "reason",
          "The breaker is open."),
    Event("…; … refused but for one a second", "error", "method", "The backend or a method does not answer. The "
          "breaker is open, for all calls or for those of one caller."),
    Event("a method answers again", "info", "method", "The breaker is closed."),
    Event("the backend answers again", "info", "", "The breaker is closed."),
    Event("the backend sends more than its answers; from now on each call has a connection of its own", "warning", "",
          "Its responses cannot be told apart otherwise. Correct the service."),
    Event("the backend sends messages that belong to no call; they are dropped", "info", "", "Notifications, late "
          "answers, answers to no question. `mcp_gateway_backend_messages_dropped_total` counts them."),
    Event("the backend sends messages without an id that nobody can be given", "warning", "", "More than one "
          "call can be meant, or one that was given up. `mcp_gateway_backend_messages_unowned_total` counts them. Let "
          "the service return the id of each call."),
    Event("nothing is acknowledged on a connection; it gets no new calls until something is", "warning", "",
          "The network, or the host of the service, may be gone. New calls have another connection; those under way "
          "wait on."),
    Event("a connection is ended on which the backend sends too much of its own", "warning", "most", "It sent more "
          "messages in a second that belong to no call than it may. The next connection is opened after a second. Let "
          "the service send less to who did not ask."),
    Event("a connection is ended that holds most of an unfinished message", "warning", "bytes", "There was no room for "
          "more. Calls on it may have run. Look why the service sends so much and does not end it, or raise "
          "`server.max_buffered`."),
    Event("logged in at the backend", "info", "method", "By `backend.credentials.login`."),
    Event("the service refuses the credential", "error", "sent_again_after", "Correct `backend.credentials`, or mend "
          "the account. It is tried [by the clock](credentials.md#a-credential-that-is-refused), and at once after a "
          "changed setting or `POST /refresh`. After a refusal at the JSON-RPC endpoint, calls get 502, unsent."),
    Event("the service accepts the credential again", "info", "", "Calls are sent again."),
    Event("no token for the backend", "error", "reason", "The token endpoint refuses: look at the credentials."),
    Event("the token endpoint does not answer", "warning", "reason", "It is tried again at the next call."),
    Event("the backend does not accept the gateway's credential", "error", "method", "Correct "
          "`backend.credentials`."),
    Event("the conditions of same_resource do not hold: the backend refuses a token that was accepted here", "error",
          "method issuer", "The service and the gateway must accept the same tokens, or use another mode."),
    # The store
    Event("the store is in memory", "info", "of_each_process", "Name a Redis in `store.url` for several replicas."),
    Event("the shared store is available", "info", "replicas", "Redis answers."),
    Event("the shared store is unavailable: this process decides alone", "warning", "reason replicas more_since_last",
          "Redis does not answer."),
    Event("the shared store evicts keys where memory is short: what was used once may then be used again", "warning",
          "policy remedy", "Set `maxmemory-policy noeviction`."),
    Event("the connection to the shared store did not close well", "debug", "error", ""),
    Event("a listing in the shared store cannot be read", "warning", "error", "Another edition wrote it. It is listed "
          "anew."),
    Event("another replica was to list, and said nothing", "warning", "", "This one lists."),
    Event("a document in the shared store is old, or was made by a clock that is wrong", "warning", "purpose",
          "Compare the clocks of the replicas."),
    Event("something in the shared store was not sealed with this secret", "warning", "purpose", "Replicas need the "
          "same `server.secret_file`."),
)  # fmt: skip
