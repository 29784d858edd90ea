"""Make the mistakes of a table once, each in a folder of its own."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

from tests.mistakes.commands import run_all
from tests.mistakes.contact.stand_ins import standing
from tests.mistakes.contact.vocabulary import stand_in
from tests.mistakes.mistake import Told
from tests.mistakes.row import Row
from tests.tls import Authority


async def tell(rows: Iterable[Row], names: Mapping[str, str] | None = None) -> dict[str, Told]:
    """Return what each row came to.

    Those of ``names`` are for all rows; <ca> is the authority of the stand-ins, and each row has <here>, <host> and
    <port> of its own.
    """
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        authority = Authority(folder)
        commands, own = {}, {}
        for number, row in enumerate(rows):
            here = folder / str(number)
            here.mkdir()
            mine = {**(names or {}), "<ca>": str(authority.file), "<here>": str(here)}
            if row.there is not None:
                port = await stack.enter_async_context(standing(stand_in(row.there), authority))
                mine |= {"<host>": f"127.0.0.1:{port}", "<port>": str(port)}
            own[row.name] = mine
            try:
                commands[row.name] = row.prepared(here, mine)
            except KeyError as unknown:
                unknown.add_note(f"row {row.name}")
                raise
        told = await run_all(commands)
    return {name: replace(one, names=own[name]) for name, one in told.items()}
