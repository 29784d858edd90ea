"""Two packages of PyPI for Django in one site.

django-modern-rpc lists with ``system.listMethods`` and gives signatures; rpc4django has ``system.describe`` too.

Usage: python django_app.py --port N [--package rpc4django]      (POST http://127.0.0.1:N/rpc)
"""

import argparse
import sys
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

import django
from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.urls import path

parser = argparse.ArgumentParser()
parser.add_argument("--port", type=int, required=True)
parser.add_argument("--package", choices=("modernrpc", "rpc4django"), default="modernrpc")
parser.add_argument("--more", type=int, default=0, help="further methods of modernrpc")
options = parser.parse_args()

settings.configure(
    ROOT_URLCONF=__name__,
    ALLOWED_HOSTS=["127.0.0.1"],
    INSTALLED_APPS=[options.package],
    RPC4DJANGO_LOG_REQUESTS_RESPONSES=False,
)
django.setup()


def modernrpc_view() -> Any:
    from modernrpc.server import RpcServer

    server = RpcServer()

    @server.register_procedure(name="rooms.book")
    def book(room: int, guest: str, nights: int = 1) -> str:
        """Book a room.

        :param room: number of the room
        :param guest: who stays
        :param nights: how long
        """
        return f"{room}: {guest}, {nights}"

    @server.register_procedure(name="rooms.free")
    def free(floors: list) -> int:
        """Count the free rooms.

        :param floors: numbers of the floors
        :type floors: list
        :rtype: int
        """
        return 9 * len(floors)

    for number in range(options.more):
        server.register_procedure(book, name=f"rooms.book{number}")
    return server.view


def rpc4django_view() -> Any:
    from django.views.decorators.csrf import csrf_exempt
    from rpc4django import rpcmethod
    from rpc4django.rpcdispatcher import dispatcher
    from rpc4django.views import serve_rpc_request

    @rpcmethod(name="rooms.book", signature=["string", "int", "string"])
    def book(room: int, guest: str, **_: Any) -> str:
        """Book a room."""
        return f"{room}: {guest}"

    @rpcmethod(name="rooms.nights", signature=["int", "array"])
    def nights(stays: list, **_: Any) -> int:
        """Add up the nights of stays."""
        return sum(stays)

    for method in (book, nights):
        dispatcher.register_method(method)
    return csrf_exempt(serve_rpc_request)


urlpatterns = [path("rpc", modernrpc_view() if options.package == "modernrpc" else rpc4django_view())]


class Quiet(WSGIRequestHandler):
    """Write no access log."""

    def log_message(self, format: str, *args: Any) -> None:
        return


if __name__ == "__main__":
    sys.modules["django_app"] = sys.modules[__name__]
    make_server("127.0.0.1", options.port, get_wsgi_application(), handler_class=Quiet).serve_forever()
