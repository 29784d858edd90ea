"""Define the knobs of MCP, and of how the gateway introduces itself (schema.ts ``Implementation``, ``Icon``)."""

import re
from typing import Annotated, Literal

from pydantic import Field

from gateway.settings.knobs import Document, HttpUrl, Section, all_checked, checked, knob
from gateway.units import Duration

_ICON = re.compile(r"https://[\x21-\x7e]+|data:image/[\x21-\x7e]+")
_SIZE = re.compile(r"[1-9][0-9]{0,4}x[1-9][0-9]{0,4}|any")


_Source = Annotated[str, checked(_ICON.fullmatch, "must be an https:// URL or a data:image/ URI")]
_Sizes = Annotated[tuple[str, ...], all_checked(_SIZE.fullmatch, "must be a width and a height such as 48x48, or any")]


class Icon(Document):
    """An image that stands for the server in user interfaces."""

    src: _Source = Field(description="https://… or data:image/…", max_length=65_536)
    mime_type: str | None = knob(None, "Media type, where src does not show it.", max_length=128)
    sizes: _Sizes = knob((), "Sizes that the image suits: 48x48, or any.", max_length=20)
    theme: Literal["light", "dark"] | None = knob(None, "Background that the image suits.")


class About(Document):
    """What people see of the server."""

    title: str | None = knob(None, "Name for people. Absent: the listing's title.", max_length=256)
    description: str | None = knob(None, "What the server is for, in a sentence for people.", max_length=100)
    website_url: HttpUrl | None = knob(
        None,
        "Page about the server. It also tells people how to get a token (resource_documentation in the metadata). "
        "Absent: the listing's, which is sent to clients only.",
        max_length=2048,
    )
    icons: tuple[Icon, ...] = knob((), "Icons of the server: [{src: https://…, sizes: [48x48]}].", max_length=10)


class McpServer(Section):
    """Name, texts and icons by which clients know the server. Absent values come from the service's listing."""

    name: str | None = knob(
        None, "Name of the server. Absent: the listing's title, else jsonrpc-mcp-gateway.", min_length=1, max_length=256
    )
    instructions: str | None = knob(
        None,
        "What a model should know before it uses the tools. Absent: the listing's description. Empty, which only the "
        "file can say: no instructions.",
        max_length=16_384,
    )
    about: About = knob(
        About, "Title, description, website and icons, e.g. {title: Books, website_url: https://books.example.com}."
    )
    card: bool = knob(
        False,
        "Publish a server card (/mcp/server-card) and its entry in /.well-known/ai-catalog.json: everybody may read "
        "them. Needs server.public_url.",
    )


class Mcp(Section):
    """The Model Context Protocol."""

    heartbeat: Duration = knob(
        15.0,
        "Interval of keep-alive comments on streams, and of progress notices for calls that request them. Also the "
        "shortest time between two notices that tools changed, where it is less than 10 s; the first is sent at once.",
        ge=0.05,
        le=300,
    )
    server: McpServer = knob(
        McpServer,
        "Name, texts and icons by which clients know the server. Absent values come from the service's listing.",
    )
