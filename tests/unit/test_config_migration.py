"""``config migrate`` moves each knob that left to where its value belongs now, and changes nothing else of the file."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml

from gateway.config.layers import LEFT
from gateway.config.migration import migrate
from gateway.config.source import ConfigError, ConfigSource
from gateway.config.strict_yaml import NotYaml, read_yaml
from tests.each import each
from tests.unit.test_config_left import SERVICE, keys_of, put, service

OLD = """\
# Our gateway.
server:
  public_url: https://gw.example.com # the proxy
backend:
  url:   'http://127.0.0.1:8000/jsonrpc'
  # Pools broke our old proxy.
  transport: session  # since 2024
  params:
    always: true   # it wants params
  credentials:
    mode: static
    header: X-Api-Key
    # rotated monthly
    value: "Key ${API_KEY}" # from the vault
  listing: {credentials: {mode: static, value: "${LISTING}"}, timeout: 5s}
auth:
  issuers:
    - jwks_uri: https://login.example.com/keys # pinned
      # the new one
      issuer: https://login.example.com
    - issuer: https://two.example.com
      introspection:
        endpoint: https://two.example.com/introspect
        client_id: gw
catalog:
  max_tools: 100
  tools:
    a.b: {content: blocks, title: "#1"}
    c:
      arguments: {content: {default: "x # y"}}
      requires: [sampling]
      input_required: true

# what callers may
limits:
  client: 10/minute
mcp:
  server:
    title: Books
    icons:
      - src: https://e.example/x.png # small
        sizes: [48x48]
    instructions: |
      # not a comment
      Search first.
store:
  url: redis://redis:6379/0
  username: gw
"""
NEW = """\
# Our gateway.
server:
  public_url: https://gw.example.com # the proxy
backend:
  url:   'http://127.0.0.1:8000/jsonrpc'
  # Pools broke our old proxy.
  # since 2024
  # it wants params
  credentials:
    mode: static
    # rotated monthly
    # from the vault
    send: {headers: {X-Api-Key: 'Key ${API_KEY}'}}
  listing: {credentials: {mode: static, send: {headers: {Authorization: '${LISTING}'}}}, timeout: 5s}
  version: 2.0-with-params
auth:
  issuers:
      # pinned
      # the new one
    - issuer: https://login.example.com
      metadata: {jwks_uri: 'https://login.example.com/keys'}
    - issuer: https://two.example.com
      introspection:
        client_id: gw
      metadata: {introspection_endpoint: 'https://two.example.com/introspect'}
catalog:
  tools:
    a.b: {title: "#1", mcp: [blocks]}
    c:
      arguments: {content: {default: "x # y"}}
      mcp: [sampling, input_required]

# what callers may
mcp:
  server:
    # small
    instructions: |
      # not a comment
      Search first.
    about: {title: Books, icons: [{src: 'https://e.example/x.png', sizes: [48x48]}]}
store:
  url: redis://gw@redis:6379/0
"""
VALUES: dict[str, Any] = {
    "backend.credentials.header": "X-Api-Key",
    "backend.params.always": True,
    "backend.params.prefix": ["token:s3cret"],
    "catalog.tools.*.content": "blocks",
    "catalog.tools.*.input_required": True,
    "catalog.tools.*.requires": ["sampling"],
    "mcp.server.icons": [{"src": "https://e.example/x.png"}],
    "mcp.server.website_url": "https://e.example",
}
URLS = ("auth.issuers.*.introspection.endpoint", "auth.issuers.*.jwks_uri")


def faults(text: str) -> list[str]:
    """The faults of a file; what it lacks is none of its own."""
    try:
        ConfigSource(None, (), read_yaml(text, ""), {"VALUE": "s3cret"}).load_settings()
    except ConfigError as error:
        return [fault for fault in error.faults if "is required" not in fault]
    return []


def test_every_knob_is_where_it_belongs_now_and_nothing_else_has_changed() -> None:
    text, done = migrate(OLD, "old.yaml")
    assert text == NEW
    assert len(done) == 15
    assert "backend.transport: removed" in done
    assert "auth.issuers.0.jwks_uri: moved to auth.issuers.0.metadata.jwks_uri" in done
    assert migrate(text, "new.yaml") == (text, [])


def test_no_comment_is_lost() -> None:
    comments = re.findall('(?m)(?:^|\\s)(# [^\n"]+)$', OLD)
    assert len(comments) > 9
    assert [comment for comment in comments if comment not in NEW] == []


def written(tree: Any, style: str) -> str:
    if style == "json":
        return json.dumps(tree)
    return str(yaml.safe_dump(tree, default_flow_style=style == "flow", sort_keys=False))


@each("style", ["block", "flow", "json"])
@each("knob", [*LEFT])
def test_each_knob_alone_leaves_a_file_that_loads(knob: str, style: str) -> None:
    value = "https://login.example.com/x" if knob in URLS else VALUES.get(knob, "s3cret")
    base = put(service(), ["mcp", "heartbeat"], "20s")
    for path in ([], ["services", "crm"]) if knob.startswith(SERVICE) else ([],):
        tree = put({"services": {"crm": base}} if path else base, [*path, *keys_of(knob)], value)
        assert [fault for fault in faults(written(tree, style)) if "left in this release" in fault]
        text, (line,) = migrate(written(tree, style), "old.yaml")
        assert line.startswith(".".join(map(str, [*path, *keys_of(knob)])))
        assert [fault for fault in faults(text) if "left" in fault or "not a knob" in fault] == []
        assert read_yaml(text, "").get("auth", {"mode": "off"})["mode"] == "off"


@each(
    "text",
    [
        "",
        "# nothing\n",
        "backend:\n",
        "[]",
        "backend: {url: 'http://h/'}",
        "catalog: {tools: {a: {arguments: {content: {default: 1}}}}}",
    ],
)
def test_a_file_without_such_a_knob_stays_as_it_is(text: str) -> None:
    assert migrate(text, "old.yaml") == (text, [])


@each("text", ["a: [", "a: 1\na: 2\n", "- &a b\n- *a\n", "[" * 10_000])
def test_what_is_not_yaml_is_refused_with_its_place(text: str) -> None:
    with pytest.raises(NotYaml, match=r"^old\.yaml"):
        migrate(text, "old.yaml")
