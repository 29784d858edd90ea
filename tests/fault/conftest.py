"""Faults of the service and of the network, through both HTTP clients of the gateway."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.front import transport_of_gateways

BOTH = ("test_rows", "test_faulty_network", "test_odd_connections", "test_surplus_answers", "test_large_answers")
"""Modules whose tests run with each."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if metafunc.module.__name__.rpartition(".")[2] in BOTH:
        metafunc.parametrize("transport", ("lean", "session"), indirect=True)


@pytest.fixture(autouse=True)
def transport(request: pytest.FixtureRequest) -> Iterator[str]:
    """Return the name of the HTTP client towards the service."""
    name = getattr(request, "param", "lean")
    with transport_of_gateways(name):
        yield name
