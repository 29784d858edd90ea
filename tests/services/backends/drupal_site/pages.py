"""Responses of Drupal itself: JSON bodies, HTML error pages, `?_format=json` errors, the crash page."""

import html
from http import HTTPStatus

from aiohttp import web

from drupal_site import php

HEADERS = {
    "Server": "Apache",
    "Cache-Control": "must-revalidate, no-cache, private",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "SAMEORIGIN",
    "X-Generator": "Drupal 10 (https://www.drupal.org)",
}
TITLES = {401: "Unauthorized", 403: "Access denied", 404: "Page not found", 405: "Client error"}
MESSAGES = {
    401: "No authentication credentials provided.",
    403: "The 'use jsonrpc services' permission is required.",
}
CRASH = "The website encountered an unexpected error. Try again later."

_PAGE = """<!DOCTYPE html>
<html lang="en" dir="ltr">
  <head>
    <meta charset="utf-8" />
<meta name="Generator" content="Drupal 10 (https://www.drupal.org)" />
<meta name="viewport" content="width=device-width, initial-scale=1.0" />
    <title>{title} | T</title>
  </head>
  <body>
    <a href="#main-content" class="visually-hidden focusable">
      Skip to main content
    </a>
    <main role="main">
      <a id="main-content" tabindex="-1"></a>
      <h1>{title}</h1>
      {message}
    </main>
  </body>
</html>
"""


def json_body(text: str, status: int = 200, **headers: str) -> web.Response:
    """No charset: Drupal's JSON answers do not name one."""
    named = {**HEADERS, "Content-Type": "application/json", **headers}
    return web.Response(status=status, body=text.encode(), headers=named)


def refusal(request: web.Request, status: int, message: str = "", **headers: str) -> web.Response:
    """An error of routing or access: a page, or `{"message": ...}` for `?_format=json`."""
    message = message or MESSAGES.get(status, "")
    if request.query.get("_format") == "json":
        return json_body(php.encode({"message": message}), status, **headers)
    title = TITLES.get(status, HTTPStatus(status).phrase)
    page = _PAGE.format(title=title, message=html.escape(message))
    named = {**HEADERS, "Content-Type": "text/html; charset=UTF-8", **headers}
    return web.Response(status=status, body=page.encode(), headers=named)


def unauthorized(request: web.Request) -> web.Response:
    return refusal(request, 401, **{"WWW-Authenticate": 'Basic realm="T"'})


def not_allowed(request: web.Request, *methods: str) -> web.Response:
    """Symfony's text; `Allow` lists what the route knows."""
    allowed = ", ".join(methods)
    text = f'No route found for "{request.method} {request.url}": Method Not Allowed (Allow: {allowed})'
    return refusal(request, 405, text, Allow=allowed)


def crash(request: web.Request) -> web.Response:
    """An uncaught exception, with the odd reason phrase that Drupal sends."""
    kind = "text/plain" if request.query.get("_format") == "json" else "text/html"
    named = {**HEADERS, "Content-Type": f"{kind}; charset=UTF-8"}
    reason = "500 Service unavailable (with message)"
    return web.Response(status=500, reason=reason, body=CRASH.encode(), headers=named)


def empty(status: int, **headers: str) -> web.Response:
    named = {**HEADERS, **headers}
    if status != HTTPStatus.NO_CONTENT:
        named.setdefault("Content-Type", "text/html; charset=UTF-8")
    return web.Response(status=status, headers=named)
