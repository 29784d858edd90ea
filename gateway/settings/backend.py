"""Define the knobs of the backend: how to reach it, which credentials it gets, how its methods are listed."""

import re
from collections.abc import Iterator
from typing import Annotated, Any, Final, Literal

from pydantic import Field, SecretStr, ValidationInfo, model_validator

from gateway.settings.auth import ClientSecret, SecureUrl
from gateway.settings.custom import CustomListing
from gateway.settings.knobs import WIRES, Document, HttpUrl, Section, ServiceUrl, http_target, knob
from gateway.settings.sending import (
    GIVEN,
    PRINCIPAL_NAME,
    CallerHeader,
    Login,
    PlainHeaderName,
    Send,
    TextValue,
    names_in,
)
from gateway.units import Duration, Size

_SHA256: Final = re.compile(r"[0-9a-fA-F]{64}")


class Tls(Document):
    """TLS of the connection to the backend."""

    ca_file: str | None = knob(None, "CA bundle (PEM) to trust for the backend, instead of the system's.")
    cert_file: str | None = knob(None, "Client certificate (PEM).")
    key_file: str | None = knob(None, "Key of the client certificate (PEM).")
    server_name: str | None = knob(
        None, "Name that the backend's certificate has, where it is not the host of the URL. It is also sent (SNI)."
    )
    fingerprint: str | None = knob(
        None,
        "SHA-256 of the backend's own certificate, in hexadecimal, as `check` prints it: for an appliance that signs "
        "for itself. Its name and its authority are then not checked, and that it has expired is a remark.",
    )

    def conflict(self) -> str:
        if (self.cert_file is None) != (self.key_file is None):
            return "cert_file and key_file must be set together"
        if self.fingerprint is None:
            return ""
        if not _SHA256.fullmatch(self.fingerprint.replace(":", "")):
            return "fingerprint must be a SHA-256: 64 hexadecimal digits, with or without colons"
        checked = self.ca_file is not None or self.server_name is not None
        return "with fingerprint, neither ca_file nor server_name is looked at: leave them out" * checked


class Params(Section):
    """Form of the ``params`` that the backend expects."""

    structure: Literal["auto", "by-name", "by-position", "by-name-in-list"] = knob(
        "auto",
        "Structure of params. auto: as the listing says of each method. Where it does not say: by name, or by position "
        "where a parameter's name cannot be a key; a tool that is marked read-only or idempotent under catalog.tools "
        "is then also tried with the other structure. by-name-in-list: one object as the only element of a list.",
    )
    send_defaults: bool = knob(
        False,
        "Send the listing's default for each argument that a caller leaves out; by position, up to the first argument "
        "without a default. For services that declare defaults but do not apply them.",
    )


def checked_mode(section: Any, info: ValidationInfo) -> Any:
    """Return the section if it fits its mode. ``context`` yields the faults: settings may not import the modes."""
    if info.context is not None and (faults := [*info.context(section)]):
        raise ValueError("; ".join(faults))
    return section


class Credentials(ClientSecret):
    """Credentials that the gateway sends to the backend."""

    # The modes stand in gateway/credentials, which settings may not import. Derived files get their names and help.
    mode: str = knob("auto", "Which credential is sent.")
    backend_audience: str | None = knob(
        None,
        "same_resource: the audience that the backend itself requires of a token. "
        "It must be the gateway's resource (public_url + /mcp), or the value that the issuer's preset uses instead.",
    )
    reject_extra_audiences: bool = knob(
        True, "same_resource: refuse tokens that are valid elsewhere too, because the backend could use them there."
    )
    trusted_network: bool = knob(
        False,
        "Allow http:// beyond loopback for tokens (same_resource), and do not warn of it for secrets of the "
        "gateway's own. Only where the network encrypts (a mesh).",
    )
    token_endpoint: SecureUrl | None = knob(
        None,
        "token_exchange, client_credentials: token endpoint. Absent: the one in the first issuer's metadata. "
        "token_exchange with several issuers needs it, because it receives the tokens of all of them.",
    )
    audience: str | None = knob(None, "token_exchange, client_credentials: audience to request.")
    resource: str | None = knob(None, "token_exchange, client_credentials: resource to request (RFC 8707).")
    scope: str | None = knob(None, "token_exchange, client_credentials: scopes to request, separated by spaces.")
    user: str | None = knob(None, "basic, digest, and {user} in send and login: the gateway's name at the service.")
    password: SecretStr | None = knob(
        None, "basic, digest, and {password} in send and login, e.g. ${file:/run/secrets/password}."
    )
    login: Login | None = knob(
        None, "login: the call that logs in, e.g. {method: auth.login, params: ['{password}'], find: {id: $.result}}."
    )
    send: Send | None = knob(
        None,
        "static, basic, digest, login: where the credential goes, e.g. {headers: {X-Api-Key: '${KEY}'}}, or "
        "{params: ['token:${ARIA2_SECRET}']} for aria2.",
    )

    def name_faults(self) -> Iterator[str]:
        """Yield a fault for each template that uses a name without a value."""
        known = {name for name in GIVEN if getattr(self, name) is not None}
        if self.login is not None:
            missing = sorted({*names_in(self.login.params)} - known)
            if missing:
                yield f"login.params uses {{{missing[0]}}}, but {missing[0]} is not set"
                return
            known |= {*self.login.find}
        for place, value in (self.send.revealed() if self.send is not None else {}).items():
            for name in sorted({*names_in(value)} - known):
                where = ", ".join(sorted(known)) or "user, password, and those of login.find"
                brace = "a secret that has braces goes into password"
                yield f"send.{place} uses {{{name}}}, which has no value; there may be {where}; {brace}"

    _check_mode = model_validator(mode="after")(checked_mode)


class ListingCredentials(Document):
    """Credential for the listing, where it differs from that for calls. The rest comes from backend.credentials: the
    client, the token endpoint, what is requested there, the user and the password."""

    mode: str = knob("auto", "Which credential is sent for the listing.")
    send: Send | None = knob(None, "static, basic, digest: where it goes, as in backend.credentials.send.")

    _check_mode = model_validator(mode="after")(checked_mode)

    def over(self, calls: Credentials) -> Credentials:
        """Return the complete credentials for the listing: those for ``calls``, with the mode and ``send`` of here.
        With a mode of its own, the listing neither logs in as calls do nor sends what they send."""
        own = {} if self.mode in ("auto", calls.mode) else {"login": None, "send": None}
        return calls.model_copy(update={"mode": self.mode, **own, **({} if self.send is None else {"send": self.send})})


class ListingSettings(Section):
    """Listing of the backend's methods: its form, where it is, and whose it is."""

    dialect: Literal[
        "auto", "jsonrpc_mcp", "drupal", "openrpc", "smd", "describe", "plain", "introspection", "kodi", "mopidy",
        "help", "ovsdb", "truenas", "ubus", "static", "custom",
    ] = knob("auto", "Form of the listing. auto: ask for each form in turn, the cheapest first.")  # fmt: skip
    url: HttpUrl | None = knob(None, "URL of the listing. Absent: where its dialect has it.")
    file: str | None = knob(
        None,
        "File with the listing, for dialect: static. Its form is a short YAML, or a saved answer in any dialect but "
        "help, ubus and custom.",
    )
    documents: dict[str, str] = knob(
        dict,
        "Files with the documents that a $ref of the listing refers to, by the address in the $ref, e.g. "
        "{common.json: /etc/gateway/common.json}. The gateway never fetches these documents.",
    )
    language: str | None = knob(
        None,
        "Accept-Language for the listing, for services that translate descriptions. Absent: none for the shared "
        "listing, and the caller's own for a caller's; at most eight languages a service.",
    )
    identity: Literal["auto", "caller", "shared"] = knob(
        "auto",
        "Whose methods are listed. caller: each caller's own, fetched with the caller's token. "
        "shared: one listing for all callers, fetched with the listing's credential. "
        "auto: caller, with a mode that sends or exchanges the caller's token; else shared.",
    )
    custom: CustomListing = knob(
        CustomListing, "For dialect: custom, how to read the listing, e.g. {method: list, methods: '$.functions[*]'}."
    )
    timeout: Duration = knob(10.0, "Time for one listing, including the search for its form.", gt=0, le=300)
    credentials: ListingCredentials = knob(
        ListingCredentials, "Credential for the listing, if not that for calls, e.g. {mode: none}."
    )

    def conflict(self) -> str:
        if (self.dialect == "static") != (self.file is not None):
            return "dialect: static and file must be set together"
        if self.dialect != "custom" and self.custom != CustomListing():
            return f"custom needs dialect: custom, but dialect is {self.dialect}"
        if self.dialect == "custom" and self.custom.methods is None:
            return "dialect: custom needs custom.methods, a JSONPath to the entries such as $.functions[*]"
        return ""


class Backend(Section):
    """The JSON-RPC service behind the gateway."""

    url: ServiceUrl = Field(
        description="The service's JSON-RPC endpoint, for example http://127.0.0.1/jsonrpc, ws://127.0.0.1/ws, "
        "tcp://127.0.0.1:1705 or unix:/run/service.sock. Required."
    )
    framing: Literal["auto", "newline", "none", "etx", "content-length"] = knob(
        "auto",
        "tcp, tls and unix: how messages are told apart. newline: one in each line. none: by the JSON alone. etx: the "
        "byte 3 follows each. content-length: a header before each. auto: learned from the questions for the listing; "
        "for a listing file, lines are sent, and JSON with anything between it is read.",
    )
    calls_per_connection: int | None = knob(
        None,
        "ws, wss, tcp, tls and unix: 1, where a connection carries one call alone, for such a service with a listing "
        "file. Absent: all calls share a connection, or have one each where the service ends it behind its "
        "first answer, or reads no more, as is learned from the questions for the listing.",
        ge=1,
        le=1,
    )
    timeout: Duration = knob(
        30.0, "Deadline of a call, from the wait for a free connection to the last byte of the answer.", gt=0, le=3600
    )
    max_response: Size = knob(
        8 * 1024**2,
        "Largest answer, after decompression. Also the largest sum of the answers to one JSON-RPC batch. A listing may "
        "be larger, up to 16 MiB.",
        ge=1024,
        le=256 * 1024**2,
    )
    version: Literal["auto", "2.0", "2.0-with-params", "1.0"] = knob(
        "auto",
        "JSON-RPC version of the service. 2.0-with-params: params is sent even to a method without parameters, as some "
        "services require. 1.0: no jsonrpc member, always id and params, params by position; an answer may be the bare "
        "result. auto: the one in which the service answers with its listing; 2.0 for a listing file.",
    )
    ids: Literal["auto", "string", "integer"] = knob(
        "auto",
        "Ids of the messages to the service. auto: strings, or integers if the service answers only these with its "
        "listing; strings for a listing file, a listing by GET, and a login.",
    )
    errors: Literal["cleaned", "passed"] = knob(
        "cleaned",
        "What /jsonrpc and /mcp/tools/{name} return of the service's own errors. cleaned: the message, with a code of "
        "the gateway. passed: also the service's own code and data, without stack traces and secrets. "
        "MCP and REST always return the message alone.",
    )
    not_run: tuple[Annotated[int, Field(ge=400, le=599)], ...] = knob(
        (),
        "HTTP statuses with which this service, and each proxy before it, surely ran nothing, e.g. [503]: callers then "
        "read that the call is safe to repeat. 429 is one always. What holds a JSON-RPC response counts as that.",
    )
    lenient: bool = knob(
        True,
        "Mend an answer that is no sound JSON where only one thing can be meant: a byte order mark, bytes that are not "
        "UTF-8, NaN, a PHP warning before the message. /jsonrpc and /mcp/tools/{name} refuse what was mended. false: "
        "refuse it everywhere.",
    )
    connections: int = knob(
        100,
        "Maximum number of exchanges with the backend at a time. Four are kept for listings, or a quarter where there "
        "are fewer than 16. One caller gets at most a third of the others, and a sixth for one tool. One tool gets a "
        "third, or two thirds while it answers.",
        ge=1,
        le=10_000,
    )
    queue_timeout: Duration = knob(
        5.0, "Longest wait of a call for its turn. The deadline of the call includes it.", gt=0, le=300
    )
    content_type: Literal["application/json", "application/json-rpc", "application/jsonrequest"] = knob(
        "application/json", "Content-Type of the requests, where the service takes only one of the older ones."
    )
    proxy: HttpUrl | None = knob(None, "HTTP proxy for the backend. Proxy variables of the environment are ignored.")
    tls: Tls = knob(Tls, "TLS of the connection to the backend, e.g. {ca_file: /etc/ssl/ours.pem}.")
    headers: dict[PlainHeaderName, TextValue] = knob(
        dict, "Further headers of every request, e.g. {X-Tenant: crm}. Credentials go into backend.credentials."
    )
    caller_headers: dict[PlainHeaderName, CallerHeader] = knob(
        dict,
        "Headers that tell the service who calls, of verified claims, e.g. {X-Forwarded-User: '{sub}', X-Groups: "
        "{value: '{claims.groups}', required: true}}. For a service that accepts requests from the gateway alone.",
    )
    params: Params = knob(Params, "Form of the params that the backend expects.")
    credentials: Credentials = knob(Credentials, "Credentials that the gateway sends to the backend.")
    listing: ListingSettings = knob(
        ListingSettings, "Listing of the backend's methods: its form, where it is, and whose it is."
    )

    def conflict(self) -> str:
        if self.framing != "auto" and self.wire != "stream":
            return f"framing is for tcp, tls and unix, but url has {self.url.partition(':')[0]}: leave it out"
        if self.calls_per_connection is not None and self.wire == "http":
            return "calls_per_connection is for ws, wss, tcp, tls and unix: over HTTP the service says it itself"
        return ""

    @property
    def wire(self) -> Literal["http", "websocket", "stream"]:
        """Return what the service is reached over."""
        return WIRES[self.url.partition(":")[0].lower()]

    @property
    def target(self) -> str:
        """Return the URL that requests have: also over a Unix socket one of HTTP."""
        return http_target(self.url)[0]

    @property
    def socket(self) -> str | None:
        """Return the path of the Unix socket that HTTP goes through, if any."""
        return http_target(self.url)[1]

    @property
    def told_claims(self) -> tuple[str, ...]:
        """Return the claims that caller headers name."""
        names = (name for header in self.caller_headers.values() for name in PRINCIPAL_NAME.findall(header.value))
        return tuple(dict.fromkeys(name.removeprefix("claims.") for name in names if name.startswith("claims.")))
