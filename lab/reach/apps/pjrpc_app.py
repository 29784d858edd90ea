"""PyPI pjrpc: an OpenRPC document by GET alone, which its own extractor makes of type hints and docstrings.

Usage: python pjrpc_app.py --port N      (POST http://127.0.0.1:N/api/v1)
"""

import argparse

import pjrpc.server
import pydantic
from aiohttp import web
from pjrpc.server.integration import aiohttp as integration
from pjrpc.server.specs import openrpc
from pjrpc.server.specs.extractors.pydantic import PydanticMethodInfoExtractor
from pjrpc.server.validators.pydantic import PydanticValidatorFactory

methods = pjrpc.server.MethodRegistry(
    validator_factory=PydanticValidatorFactory(exclude_param=integration.is_aiohttp_request),
    metadata_processors=[openrpc.MethodSpecificationGenerator(extractor=PydanticMethodInfoExtractor())],
)


class Parcel(pydantic.BaseModel):
    grams: int
    fragile: bool = False


@methods.add("parcels.weigh")
def weigh(parcels: list[Parcel]) -> int:
    """Weigh parcels together."""
    return sum(parcel.grams for parcel in parcels)


@methods.add("parcels.price")
def price(grams: int, express: bool = False) -> float:
    """Say what a parcel costs."""
    return grams * 0.01 + (5 if express else 0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    application = integration.Application("/api/v1")
    application.add_methods(methods)
    application.add_spec(openrpc.OpenRPC(info=openrpc.Info(title="parcels", version="1")), path="openrpc.json")
    web.run_app(application.http_app, host="127.0.0.1", port=parser.parse_args().port, print=None)
