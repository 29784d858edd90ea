"""Rows J14 to J23 of docs/security.md, applied to each preset: where it is looser than RFC 9068, and nowhere else.

The tables in docs/issuers are held to what comes out.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple, TypeAlias

import pytest

from gateway.auth.presets import PRESETS
from tests.authorization.forge import OMIT
from tests.authorization.keys import Key, rsa_key
from tests.authorization.pages import ISSUERS, Shape, page
from tests.authorization.test_presets import Desk, access, desk, refused, with_claims, with_header
from tests.each import each

Change: TypeAlias = Callable[[Shape, Desk], Shape]
LEEWAY: Final = 30
CYRILLIC_O: Final = "\u043e"
DECADE: Final = 10 * 365 * 86400
PRESET_ROWS: Final = [f"J{number}" for number in range(14, 24)]


class Case(NamedTuple):
    """A change to a sound token, and whether the strict rules accept what comes of it."""

    row: str
    what: str
    change: Change
    accepted: bool = False


def typ(value: Any) -> Change:
    return lambda shape, _: with_header(shape, typ=value)


def claim(**claims: Any) -> Change:
    return lambda shape, _: with_claims(shape, **claims)


def times(**offsets: int) -> Change:
    """Times by seconds from now."""

    def change(shape: Shape, _: Desk) -> Shape:
        now = int(time.time())
        return with_claims(shape, **{name: now + offset for name, offset in offsets.items()})

    return change


def recipient(make: Callable[[str, Desk], Any]) -> Change:
    """``aud`` made from what the token has there that counts."""

    def change(shape: Shape, it: Desk) -> Shape:
        named = shape.claims.get("aud", "https://gw.example.com/mcp")
        ours = next(name for name in ([named] if isinstance(named, str) else named) if name in it.policy.audiences)
        return with_claims(shape, aud=make(ours, it))

    return change


def issuer(make: Callable[[str], Any]) -> Change:
    return lambda shape, it: with_claims(shape, iss=make(it.policy.issuer.issuer))


def brought(ours: str, it: Desk) -> list[str]:
    preset = it.policy.preset
    return [ours, *(preset.audiences_added_by(it.policy.issuer.issuer) or ["account"])]


CASES: Final = (
    Case("J14", "typ JWT", typ("JWT")),
    Case("J14", "typ absent", typ(OMIT)),
    *(Case("J14", f"typ {value}", typ(value)) for value in ("dpop+jwt", "logout+jwt", "id_token", 5, None)),
    *(Case("J15", f"typ {value}", typ(value), True) for value in ("at+jwt", "AT+JWT", "application/at+jwt")),
    Case("J16", "the id token", lambda _, it: page(it.policy.preset.name).id_token.at(int(time.time()))),
    Case(
        "J16",
        "the id token, for the audience that counts",
        lambda _, it: with_claims(
            page(it.policy.preset.name).id_token.at(int(time.time())), aud=min(it.policy.audiences)
        ),
    ),
    Case("J17", "expired within the leeway", times(iat=-300, nbf=-300, exp=-LEEWAY + 5), True),
    Case("J17", "expired beyond the leeway", times(iat=-300, nbf=-300, exp=-LEEWAY - 5)),
    Case("J18", "nbf beyond the leeway", times(nbf=LEEWAY + 5)),
    Case("J18", "iat beyond the leeway", times(iat=LEEWAY + 5)),
    Case("J18", "nbf and iat within the leeway", times(nbf=LEEWAY - 5, iat=LEEWAY - 5), True),
    *(Case("J19", f"exp {value!r}", claim(exp=value)) for value in ("soon", True, None, -1, 10**30, [])),
    Case("J19", "exp absent", claim(exp=OMIT)),
    Case("J20", "ten years", times(exp=DECADE)),
    Case("J21", "aud absent", claim(aud=OMIT)),
    *(Case("J21", f"aud {value!r}", claim(aud=value)) for value in ([], {}, 5, "https://other.example.com/mcp")),
    Case("J21", "a member that is no string", recipient(lambda ours, _: [ours, 5])),
    Case("J21", "a prefix", recipient(lambda ours, _: ours[:-1])),
    Case("J21", "a slash more", recipient(lambda ours, _: f"{ours}/")),
    Case("J21", "another case", recipient(lambda ours, _: ours.upper())),
    Case("J22", "another audience too", recipient(lambda ours, _: [ours, "https://other.example.com"])),
    Case("J22", "what the issuer adds by itself too", recipient(brought)),
    Case("J23", "a slash more or less", issuer(lambda name: name[:-1] if name.endswith("/") else f"{name}/")),
    Case("J23", "another tenant", issuer(lambda name: f"{name}x")),
    Case("J23", "a list", issuer(lambda name: [name])),
    Case("J23", "a look-alike letter", issuer(lambda name: name.replace("o", CYRILLIC_O, 1))),
    Case("J23", "null", claim(iss=None)),
    Case("J23", "absent", claim(iss=OMIT)),
)

LOOSENED: Final[dict[str, set[tuple[str, str]]]] = {
    "strict": set(),
    "keycloak": {("J14", "typ JWT"), ("J22", "what the issuer adds by itself too")},
    "entra": {("J14", "typ JWT")},
    "auth0": {("J14", "typ JWT"), ("J22", "what the issuer adds by itself too")},
    "okta": {("J14", "typ absent")},
    "cognito": {("J14", "typ absent"), ("J21", "aud absent")},
    "simple_oauth": {("J14", "typ JWT"), ("J23", "absent")},
    "google": {("J23", "absent")},
}
"""What a preset accepts and RFC 9068 does not. Besides, the audience is another than the resource where
``Preset.stands_in`` says so (J21), and of what cannot be read, some rows have nothing to look at."""
NARROWED: Final = {"entra": {"J15"}}
"""Rows that a preset is stricter in: Entra has never written at+jwt."""
UNREAD: Final = {"google": {"J14", "J15", "J18"}}


def loosened(preset: str) -> set[str]:
    """The rows in which a preset is looser."""
    rows = {row for row, _ in LOOSENED[preset]} | UNREAD.get(preset, set())
    return rows | ({"J21"} if PRESETS[preset].has_substitute_audience else set())


def cases(preset: str) -> Iterator[Any]:
    for case in CASES:
        if not PRESETS[preset].opaque or case.row not in {"J14", "J15", "J16"}:
            yield pytest.param(preset, case, id=f"{preset}-{case.row}-{case.what}")


@pytest.fixture(scope="module")
def key() -> Key:
    return rsa_key("k")


@each(("preset", "case"), [param for preset in PRESETS for param in cases(preset)])
async def test_a_preset_loosens_what_it_says_and_nothing_else(preset: str, case: Case, key: Key) -> None:
    expected = (case.accepted and case.row not in NARROWED.get(preset, ())) or (case.row, case.what) in LOOSENED[preset]
    async with desk(preset, key) as it:
        shape = case.change(access(preset), it)
        if expected:
            await it.check(shape)
        else:
            await refused(it.check(shape))


@each("preset", [*PRESETS])
def test_the_audience_stands_in_for_the_resource_where_the_preset_says_so(preset: str) -> None:
    named = access(preset).claims.get("aud")
    is_resource = page(preset).settings.by_mount[""].resource in ([named] if isinstance(named, str) else named or ())
    assert PRESETS[preset].has_substitute_audience is not is_resource


@each("preset", [*PRESETS])
def test_a_page_lists_the_rows_that_its_preset_loosens(preset: str) -> None:
    assert page(preset).loosened() == loosened(preset)


def test_the_index_says_of_each_row_and_preset_whether_it_is_loosened() -> None:
    text = (ISSUERS / "README.md").read_text(encoding="utf-8")
    header = re.search(r"^\| row \|(.*)\|$", text, re.MULTILINE)
    assert header is not None
    presets = [name.strip(" `") for name in header[1].split("|")]
    assert sorted(presets) == sorted(PRESETS)
    table = {row: cells.split("|") for row, cells in re.findall(r"^\| (J\d\d)[^|]*\|(.*)\|$", text, re.MULTILINE)}
    assert list(table) == PRESET_ROWS
    for row, cells in table.items():
        for preset, cell in zip(presets, cells, strict=True):
            word = (
                "loosened" if row in loosened(preset) else "narrower" if row in NARROWED.get(preset, ()) else "strict"
            )
            assert cell.strip() == word, f"{row} of {preset}"
