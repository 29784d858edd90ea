"""A service behind https (npm @open-rpc/server-js on Node.js), by an authority that only ``backend.tls`` knows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.front import SURFACES, Surface, front
from tests.program import Ran, run, settings
from tests.services import launch
from tests.services.process import Service
from tests.tls import HOST, Authority

REX = {"id": 1, "name": "rex", "tag": "dog"}


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ours"))


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """An authority of somebody else."""
    return Authority(tmp_path_factory.mktemp("theirs"))


@pytest.fixture(scope="module")
def shop(ours: Authority) -> Iterator[Service]:
    with launch.openrpc_server(ours.server_pem(HOST)) as service:
        yield service


@pytest.fixture(scope="module")
def strict_shop(ours: Authority) -> Iterator[Service]:
    """Wants to see a certificate of its clients."""
    with launch.openrpc_server(ours.server_pem(HOST), ours.file) as service:
        yield service


def trusting(authority: Authority) -> str:
    return f"backend.tls.ca_file={authority.file}"


def showing(pem: Path) -> tuple[str, str]:
    return f"backend.tls.cert_file={pem}", f"backend.tls.key_file={pem}"


async def check(service: Service, *knobs: str) -> Ran:
    return await run("check", *settings(service.url, *knobs))


async def test_with_its_authority_named_the_service_lists_and_is_called(shop: Service, ours: Authority) -> None:
    ran = await check(shop, trusting(ours))
    assert (ran.code, ran.err) == (0, "")
    assert "tools        4" in ran.out
    async with front(shop.url, trusting(ours)) as gateway:
        for surface in SURFACES:
            assert (await gateway.call(surface, "list_pets", {"limit": 1})).value == [REX]


async def test_without_it_nothing_is_listed_and_the_remedy_is_named(shop: Service, theirs: Authority) -> None:
    ran = await check(shop)
    assert ran.code == 3
    assert "its TLS certificate is not trusted; if its CA is your own, name that in backend.tls.ca_file" in ran.err
    ran = await check(shop, trusting(theirs))
    assert ran.code == 3
    assert "its TLS certificate is not trusted: no CA in backend.tls.ca_file has signed it" in ran.err


async def test_the_same_service_by_a_name_that_its_certificate_lacks_is_refused(shop: Service, ours: Authority) -> None:
    url = shop.url.replace(HOST, "localhost")
    ran = await run("check", *settings(url, trusting(ours)))
    assert ran.code == 3
    assert "its TLS certificate is for another name; the URL must have one that the certificate has" in ran.err


@pytest.mark.parametrize("surface", SURFACES)
async def test_a_service_that_wants_a_client_certificate_is_shown_the_one_that_is_named(
    strict_shop: Service, ours: Authority, surface: Surface
) -> None:
    async with front(strict_shop.url, trusting(ours), *showing(ours.client_pem())) as gateway:
        assert (await gateway.call(surface, "list_pets", {"limit": 1})).value == [REX]


async def test_without_the_one_that_it_wants_nothing_is_listed(
    strict_shop: Service, ours: Authority, theirs: Authority
) -> None:
    ran = await check(strict_shop, trusting(ours))
    assert ran.code == 3
    assert "; if a client certificate is wanted, name it in backend.tls.cert_file" in ran.err
    ran = await check(strict_shop, trusting(ours), *showing(theirs.client_pem()))
    assert ran.code == 3
