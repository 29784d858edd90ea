"""The line of a request names its caller by issuer and subject, as the verified token has them."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from tests.authorization.stand import CALLS, stand
from tests.each import each

pytestmark = pytest.mark.usefixtures("both_servers")

TWO_AND_THREE = {"a": 2, "b": 3}


@each("surface", CALLS)
async def test_the_line_of_a_request_names_its_caller(surface: str) -> None:
    async with stand() as it:
        with capture_logs() as logs:
            assert (await it.of("ann").call(surface, "add", TWO_AND_THREE)).status == 200
            assert (await it.client("bad").call(surface, "add", TWO_AND_THREE)).status == 401
        good, bad = (line for line in logs if line["event"] == "request")
        assert (good["issuer"], good["subject"], good["outcome"]) == (it.issuer.issuer, "ann", "ok")
        assert (bad["issuer"], bad["subject"], bad["outcome"]) == ("", "", "unauthorized")
