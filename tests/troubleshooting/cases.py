"""The first mistakes that people make: each is a command line before a real thing in that state."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from tests.troubleshooting.places import Places


@dataclass(frozen=True)
class Case:
    """Hold one mistake. ``arguments`` makes the command line. ``code`` is the exit code, ``told`` a part of what is
    printed. ``environ`` is added to the environment."""

    mistake: str
    arguments: Callable[[Places], list[str]]
    code: int
    told: str
    environ: dict[str, str] = field(default_factory=dict)


def check(*knobs: str, auth: str = "auth.mode=off", more: tuple[str, ...] = ()) -> Callable[[Places], list[str]]:
    """Return what makes the command line of ``check``. In ``knobs``, {name} is the URL of a place, {dir} the folder."""
    return lambda places: [
        "check",
        *_options(places, (*knobs, auth)),
        *(part.format(dir=places.directory) for part in more),
    ]


def at(place: str, path: str = "/jsonrpc", *knobs: str, scheme: str = "http") -> Callable[[Places], list[str]]:
    """Return what makes the command line of ``check`` before a port."""
    return lambda places: check(f"backend.url={places.url(place, path, scheme)}", *knobs)(places)


def store(place: str, *knobs: str, scheme: str = "redis") -> Callable[[Places], list[str]]:
    """Return what makes the command line of ``check`` with a store."""
    return lambda places: check(
        "backend.url={service}", "server.secret_file={dir}/secret", f"store.url={places.url(place, '', scheme)}", *knobs
    )(places)


def token(name: str, *knobs: str) -> Callable[[Places], list[str]]:
    """Return what makes the command line of ``check`` with a token of an issuer at nginx."""

    def arguments(places: Places) -> list[str]:
        issuer = places.url("nginx", "/realms/demo")
        auth = f"auth.issuers=[{{issuer: {issuer}}}]"
        scopes = "auth.scopes.list=[books:read]"
        backend = f"backend.url={places.urls['service']}", "backend.credentials.mode=none"
        return [
            "check",
            *_options(places, (*backend, auth, scopes, *knobs)),
            "--token-file",
            places.file(f"{name}.jwt"),
        ]

    return arguments


def _options(places: Places, knobs: tuple[str, ...]) -> list[str]:
    return [part for knob in knobs for part in ("--set", _filled(places, knob))]


def _filled(places: Places, knob: str) -> str:
    for name, url in places.urls.items():
        knob = knob.replace(f"{{{name}}}", url)
    return knob.replace("{dir}", str(places.directory))


ADDRESS: Final = (
    Case("The service does not run, or listens elsewhere.", at("closed"), 3, "Nothing listens at "),
    Case(
        "The host's name is misspelled.", check("backend.url=http://no-such-host.invalid/jsonrpc"), 3, "its name cannot"
    ),
    Case("The address has moved.", at("nginx", "/moved"), 3, "Set backend.url to http://127.0.0.1:"),
    Case("The path is wrong, and a usual one is right.", at("nginx", "/service"), 3, "but /jsonrpc is one"),
    Case("The path is wrong, and so are all usual ones.", at("other", "/service"), 3, "and so do the usual paths"),
    Case("The address is that of a web page.", at("page", "/"), 3, "There is no JSON-RPC endpoint at /"),
    Case("The service speaks XML-RPC.", check("backend.url={xml}"), 3, "It speaks XML-RPC."),
    Case("The port is that of Redis, which ends what begins with POST.", at("redis", "/"), 3, "the connection ended"),
    Case("The address is one of HTTP, and not a WebSocket.", at("nginx", scheme="ws"), 3, "opens no WebSocket"),
    Case("The Unix socket is not there.", check("backend.url=unix:///run/no.sock"), 3, "its socket is not there"),
    Case("The address is a TCP socket without a port.", check("backend.url=tcp://127.0.0.1"), 2, "and a port"),
    Case("The address lacks http://.", check("backend.url=127.0.0.1:8000/jsonrpc"), 2, "put http:// before it"),
)
TLS: Final = (
    Case("The port wants TLS, the address says http.", at("tls"), 3, "speaks TLS"),
    Case("The port has no TLS, the address says https.", at("nginx", scheme="https"), 3, "speaks HTTP without TLS"),
    Case("The certificate is of an authority of your own, or self-signed.", at("tls", scheme="https"), 3,
         "name that in backend.tls.ca_file"),
    Case("The certificate is for another name.",
         at("named", "/jsonrpc", "backend.tls.ca_file={dir}/ca.pem", scheme="https"), 3, "for another name"),
    Case("The certificate has expired.",
         at("expired", "/jsonrpc", "backend.tls.ca_file={dir}/ca.pem", scheme="https"), 3, "has expired"),
    Case("The service wants a client certificate.",
         at("clients", "/jsonrpc", "backend.tls.ca_file={dir}/ca.pem", scheme="https"), 3, "wants a client"),
)  # fmt: skip
STATIC: Final = "backend.credentials.mode=static"
SENT: Final = "backend.credentials.send.headers.Authorization"
ACCESS: Final = (
    Case("No credentials are configured.", at("nginx", "/private/"), 3, "none are sent (HTTP 401"),
    Case("The credentials are wrong.",
         at("nginx", "/private/", STATIC, f"{SENT}=Basic Z2F0ZXdheTp3cm9uZw=="), 3,
         "It refuses the credentials that are sent (HTTP 401"),
    Case("The credentials lack a right.",
         at("nginx", "/blocked/", STATIC, f"{SENT}=Bearer some-token"), 3, "or they lack the right"),
    Case("The service says so in a JSON-RPC error.",
         check("backend.url={deluge}", "backend.listing.dialect=custom",
               "backend.listing.custom={method: web.get_plugins, methods: '$[*]'}"), 3, "It wants credentials"),
    Case("The password of a login is wrong.",
         check("backend.url={deluge}", "backend.credentials.mode=login", "backend.credentials.password=no-passw0rd",
               "backend.credentials.login={method: auth.login, params: ['{password}'], "
               "find: {session: $.cookies._session_id}}",
               "backend.credentials.send={headers: {Cookie: '_session_id={session}'}}"), 3,
         "Correct backend.credentials, whose mode is login."),
    Case("Drupal's jsonrpc takes the credentials, its jsonrpc_mcp does not.",
         check("backend.url={both}", STATIC, f"{SENT}=Basic YWRtaW46YWRtaW4="), 3,
         "Set backend.listing.dialect: drupal"),
    Case("A login page is in front of the service.", at("login"), 3, "login page"),
    Case("A single sign-on redirects to its login page.", at("nginx", "/portal"), 3, "redirects to a login page"),
)  # fmt: skip
STATE: Final = (
    Case("The service is in maintenance.", at("nginx", "/maintenance/"), 3, "Try again in 600 s"),
    Case("The service fails, whatever is asked.", at("nginx", "/failing/"), 3, "Look into the log of the service."),
    Case("A proxy runs, and the service behind it does not.", at("nginx", "/away/"), 3, "A proxy answers"),
    Case("The service is slow, or hangs.", check("backend.url={frozen}", "backend.listing.timeout=1s"), 3, "in time"),
)
LISTING: Final = (
    Case("Drupal lacks jsonrpc_discovery.", check("backend.url={drupal}"), 3, "drush en jsonrpc_discovery"),
    Case("Another dialect is named than the service speaks.",
         check("backend.url={service}", "backend.listing.dialect=kodi"), 3, "Set backend.listing.dialect: openrpc"),
    Case("The name of a dialect is misspelled.",
         check("backend.url={service}", "backend.listing.dialect=opnrpc"), 2, "did you mean openrpc?"),
    Case("The service has no listing.", check("backend.url={silent}"), 3, "does not list its methods in a known form"),
    Case("The methods file is faulty.",
         check("backend.url={service}", "backend.listing.dialect=static", "backend.listing.file={dir}/methods.yaml"), 2,
         "methods.yaml:4: methods.seats.free.parms: unknown key"),
    Case("The methods file is not there.",
         check("backend.url={service}", "backend.listing.dialect=static", "backend.listing.file={dir}/absent.yaml"), 2,
         "absent.yaml: No such file"),
)  # fmt: skip
CONFIGURATION: Final = (
    Case("No backend is named.", check(), 2, "backend.url: is required"),
    Case("Nobody said who may call.", check("backend.url={service}", auth="auth.mode=jwt"), 2, "must name at least"),
    Case("The name of a knob is misspelled.", check("backend.url={service}", "backend.tiemout=5s"), 2, "mean timeout?"),
    Case("A value is out of bounds, another of the wrong kind.",
         check("backend.url={service}", "server.port=99999", "catalog.ttl=soon"), 2, "must be at most 65535"),
    Case("A key stands twice in the file.", lambda places: ["check", "--config", places.file("twice.yaml")], 2,
         'key "url" occurs twice'),
    Case("The configuration file is not there.", lambda places: ["check", "--config", places.file("gatway.yaml")], 2,
         "No such file"),
    Case("A variable has one underscore where two are needed.",
         check("backend.url={service}"), 0, "GATEWAY__BACKEND__TIMEOUT", {"GATEWAY_BACKEND_TIMEOUT": "5s"}),
    Case("The port is in use.",
         lambda places: ["serve", *check("backend.url={service}", f"server.port={places.ports['taken']}",
                                         "server.admin_port=0")(places)[1:]],
         2, "Cannot listen on 127.0.0.1 port"),
    Case("The host to listen on is misspelled.",
         lambda places: ["serve", *check("backend.url={service}", "server.host=localhots", "server.admin_port=0",
                                         "auth.allow_unauthenticated=true")(places)[1:]],
         2, "Set server.host to an address"),
    Case("An issuer is given as a text.",
         check("backend.url={service}", "auth.issuers=https://login.example.com", auth="auth.mode=jwt"), 2,
         "has the form"),
    Case("The name of a command is misspelled.", lambda _: ["chekc"], 2, "Did you mean 'check'?"),
    Case("The name of a tool is misspelled.",
         lambda places: ["call", "ad", *check("backend.url={service}")(places)[1:]], 1, "Did you mean add?"),
)  # fmt: skip
STORE: Final = (
    Case("Redis refuses the password.", store("redis", "store.password=wrong"), 3, "It refuses the user"),
    Case("Redis does not run, or listens elsewhere.", store("closed"), 3, "Nothing listens there."),
    Case("The port of Redis has no TLS, the address says rediss.",
         store("redis", "store.password=s3cret", scheme="rediss"), 3, "It speaks Redis without TLS."),
)  # fmt: skip
TOKENS: Final = (
    Case("The issuer's tokens have the type JWT, and no preset is named.", token("keycloak"), 1, "preset: keycloak"),
    Case("The issuer's tokens have the type JWT, and are of no known kind.", token("stranger"), 1,
         "Get a token whose typ is at+jwt, or set auth.issuers.0.preset if docs/issuers"),
    Case("The token file holds a header, and no token alone.",
         lambda places: [*token("audience")(places)[:-1], places.file("header")], 2, "leave that word out"),
    Case("The token is for another service.", token("audience"), 1, "wanted: http://127.0.0.1:8080/mcp"),
    Case("The token has expired.", token("over"), 1, "2020-09-13T12:31:40Z, which is over"),
    Case("The issuer does not answer.",
         lambda places: check(f"auth.issuers=[{{issuer: {places.url('closed', '')}}}]", "backend.url={service}",
                              "backend.credentials.mode=none", auth="auth.mode=jwt")(places), 1, "No caller"),
)  # fmt: skip

SECTIONS: Final = {
    "The address": ADDRESS,
    "TLS": TLS,
    "Access": ACCESS,
    "The state of the service": STATE,
    "The listing": LISTING,
    "The configuration": CONFIGURATION,
    "The store": STORE,
    "Tokens": TOKENS,
}
