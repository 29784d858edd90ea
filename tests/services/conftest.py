"""One of each service for the whole test run.

Fixtures are synchronous on purpose: a process outlives the event loop of a single test.
State that a test leaves behind is seen by the next; `restart()` clears it.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.services import launch
from tests.services.launch import Drupal
from tests.services.process import Service


@pytest.fixture(scope="session")
def aria2() -> Iterator[Service]:
    with launch.aria2() as service:
        yield service


@pytest.fixture(scope="session")
def deluge() -> Iterator[Service]:
    with launch.deluge() as service:
        yield service


@pytest.fixture(scope="session")
def mopidy() -> Iterator[Service]:
    with launch.mopidy() as service:
        yield service


@pytest.fixture(scope="session")
def monerod() -> Iterator[Service]:
    with launch.monerod() as service:
        yield service


@pytest.fixture(scope="session")
def transmission() -> Iterator[Service]:
    with launch.transmission() as service:
        yield service


@pytest.fixture(scope="session")
def tryton() -> Iterator[Service]:
    with launch.tryton() as service:
        yield service


@pytest.fixture(scope="session")
def openrpc_app() -> Iterator[Service]:
    with launch.openrpc_app() as service:
        yield service


@pytest.fixture(scope="session")
def fastapi_app() -> Iterator[Service]:
    with launch.fastapi_app() as service:
        yield service


@pytest.fixture(scope="session")
def flask_app() -> Iterator[Service]:
    with launch.flask_app() as service:
        yield service


@pytest.fixture(scope="session")
def flask2_app() -> Iterator[Service]:
    with launch.flask2_app() as service:
        yield service


@pytest.fixture(scope="session")
def openrpc_server() -> Iterator[Service]:
    with launch.openrpc_server() as service:
        yield service


@pytest.fixture(scope="session")
def drupal() -> Iterator[Callable[..., Drupal]]:
    """`drupal(version=, mcp=, page_size=, anonymous=)`: the same options are the same site."""
    sites: dict[tuple[int, bool, int, bool], Drupal] = {}
    with ExitStack() as stack:

        def site(
            *, version: int | None = None, mcp: bool = False, page_size: int = 50, anonymous: bool = False
        ) -> Drupal:
            resolved = version or (3 if mcp else 2)
            options = resolved, mcp, page_size, anonymous
            if options not in sites:
                new = launch.drupal(version=resolved, mcp=mcp, page_size=page_size, anonymous=anonymous)
                sites[options] = stack.enter_context(new)
            return sites[options]

        yield site
