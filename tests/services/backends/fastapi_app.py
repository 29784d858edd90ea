"""PyPI fastapi-jsonrpc served by uvicorn: by name only, the listing is `GET /openrpc.json`.

Usage: python fastapi_app.py --port N      (POST http://127.0.0.1:N/api/v1/jsonrpc)
"""

import argparse

import fastapi_jsonrpc as jsonrpc
import uvicorn
from fastapi import Body
from pydantic import BaseModel

app = jsonrpc.API(title="Demo", version="0.1.0")
api = jsonrpc.Entrypoint("/api/v1/jsonrpc")


class MyError(jsonrpc.BaseError):
    """A declared error: the listing shows its code and a JSON Schema of its data."""

    CODE = 5000
    MESSAGE = "My error"

    class DataModel(BaseModel):
        details: str


class Pt(BaseModel):
    x: int
    y: int = 0


@api.method(tags=["demo"], errors=[MyError])
def echo(data: str = Body(..., examples=["123"])) -> str:
    if data == "error":
        raise MyError(data={"details": "error"})
    return data


@api.method()
def move(p: Pt, by: list[int] = Body([1, 2])) -> Pt:  # noqa: B008 - how fastapi declares a default
    return Pt(x=p.x + by[0], y=p.y + by[1])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    app.bind_entrypoint(api)
    uvicorn.run(app, host="127.0.0.1", port=parser.parse_args().port, log_level="warning")


if __name__ == "__main__":
    main()
