"""A listing in a form of the service's own: the knobs are checked before anything is asked, and any answer is read."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.backend.interview import Interview
from gateway.config.source import ConfigError, load_settings
from gateway.listing import custom
from gateway.listing.custom import Custom
from gateway.listing.dialect import NoListing
from gateway.model import Listing, Method, Parameter, SourceAnswer, Structure
from gateway.settings import CustomListing, ListingSettings
from tests.each import each
from tests.tables import each_row

URL = "http://backend.example/jsonrpc"


def form(**knobs: Any) -> CustomListing:
    return CustomListing.model_validate({"methods": "$[*]", "name": "$.id", **knobs})


def faults(**knobs: Any) -> tuple[str, ...]:
    sets = [f"backend.listing.custom.{knob}={value}" for knob, value in knobs.items()]
    with pytest.raises(ConfigError) as caught:
        load_settings(None, [f"backend.url={URL}", "auth.mode=off", "backend.listing.dialect=custom", *sets], {})
    return caught.value.faults


class Asked:
    """A source that answers every question with the same document and keeps the questions."""

    url = URL

    def __init__(self, document: Any, custom: CustomListing, place: str | None = None) -> None:
        self.listing = ListingSettings(dialect="custom", url=place, custom=custom)
        self.questions: list[Any] = []
        self.interview = Interview()
        self._seen = SourceAnswer("JSON", document, has_value=True)

    async def call_method(self, method: str, params: Any = None) -> SourceAnswer:
        self.questions.append((method, params))
        return self._seen

    async def get_document(self, url: str) -> SourceAnswer:
        self.questions.append(url)
        return self._seen

    async def read_file(self, file: str) -> bytes:
        raise OSError


def read(document: Any, **knobs: Any) -> Listing:
    return custom.parse_listing(document, form(**knobs))


def method(document: Any, **knobs: Any) -> Method:
    (one,) = read(document, **knobs).methods
    return one


def parameters(declared: Any, **paths: str) -> tuple[Parameter, ...] | None:
    return method([{"id": "m", "args": declared}], parameters="$.args[*]", parameter=paths).parameters


# --- the knobs ------------------------------------------------------------------------------------------------


@each(
    ("path", "why"),
    [
        ("functions", "expected '$'"),
        ("$.a[", "unbalanced brackets"),
        ("$.~", "selector"),
        ('$[?search(@.a, "x")]', "match() and search() are not available"),
        ("5", "found '5'"),
        ("[$.a]", "found '['"),
    ],
)
def test_what_is_no_path_is_a_fault_that_names_the_knob_and_why(path: str, why: str) -> None:
    (told,) = faults(methods=path)
    assert told.startswith("backend.listing.custom.methods: ")
    assert why in told


def test_what_is_no_text_is_no_path() -> None:
    told = faults(parameter="{name: 5, type: [$.a]}")
    assert [line.partition(": ")[2] for line in told[:2]] == ["must be a JSONPath (RFC 9535) such as $.methods[*]"] * 2


def test_every_faulty_path_is_told_at_once() -> None:
    told = faults(methods="$[", name="x", parameters="$.a", parameter="{schema: y, naem: $}")
    assert [line.partition(":")[0] for line in told] == [
        "backend.listing.custom.methods",
        "backend.listing.custom.name",
        "backend.listing.custom.parameter.schema",
        "backend.listing.custom.parameter.naem",
    ]
    assert "known here: name, schema, type" in told[-1]


@each_row
def test_what_belongs_together_comes_together(knobs: dict[str, str], remedy: str) -> None:
    (told,) = faults(**knobs)
    assert told.startswith("backend.listing")
    assert remedy in told


def test_a_form_without_its_dialect_is_a_fault() -> None:
    with pytest.raises(ConfigError, match="dialect is auto"):
        load_settings(None, [f"backend.url={URL}", "auth.mode=off", "backend.listing.custom.methods=$.a"], {})


def test_params_of_the_question_are_masked() -> None:
    assert "s3cret" not in repr(form(method="list", params=["token:s3cret"]))


# --- where it asks --------------------------------------------------------------------------------------------


async def test_without_a_method_it_gets_the_place_or_the_endpoint() -> None:
    for place, asked in (("http://backend.example/api", "http://backend.example/api"), (None, URL)):
        source = Asked([{"id": "m"}], form(), place)
        assert [found.name for found in (await Custom().fetch_listing(source)).methods] == ["m"]
        assert source.questions == [asked]


async def test_a_method_is_called_with_its_params() -> None:
    for params in (None, ["*", 1], {"detail": "full"}):
        source = Asked([{"id": "m"}], form(method="api.list", params=params))
        await Custom().fetch_listing(source)
        assert source.questions == [("api.list", params)]


@each(
    ("document", "told"),
    [
        ({"functions": []}, r"backend\.listing\.custom\.methods, \$\[\*\]\.a, finds nothing"),
        ([{"a": {"name": "m"}}, {"a": 5}], r"no name in the 2 entries .* backend\.listing\.custom\.name is \$\.id"),
        ("functions", "no object or list"),
        (None, "no object or list"),
    ],
)
async def test_where_nothing_is_found_the_knob_that_found_nothing_is_named(document: Any, told: str) -> None:
    with pytest.raises(NoListing, match=f"^api.list: JSON, but .*{told}"):
        await Custom().fetch_listing(Asked(document, form(method="api.list", methods="$[*].a")))


# --- what it reads --------------------------------------------------------------------------------------------


@each_row
def test_a_name_is_what_the_path_finds_or_the_key_or_the_entry(document: Any, paths: dict[str, Any]) -> None:
    assert [found.name for found in read(document, **paths).methods] == ["a", "b"]


def test_all_parts_of_a_method_are_read() -> None:
    entry = {"id": "m", "label": "M", "about": "Does m.", "gives": "int", "in": {"type": "object"}}
    paths = {"title": "$.label", "description": "$.about", "result": "$.gives", "input_schema": "$.in"}
    found = method([entry], **paths)
    assert (found.title, found.description) == ("M", "Does m.")
    assert found.result == {"type": "integer"}
    assert found.input_schema == {"type": "object"}


def test_without_a_path_to_parameters_the_arguments_are_left_open() -> None:
    assert method([{"id": "m"}]).parameters is None
    assert method([{"id": "m"}], parameters="$.args[*]").parameters == ()


def test_parameters_have_the_name_schema_requirement_and_text_that_the_paths_find() -> None:
    declared = [
        {"key": "a", "kind": "int", "must": True, "about": "First."},
        {"key": "b", "kind": ["str", "nil"], "must": "Yes"},
        {"key": "c", "kind": "int", "is": {"enum": [1]}, "must": 1},
        {"key": "d", "kind": "money", "must": "no", "about": 5},
        {"key": "e", "must": ["true"]},
    ]
    paths = {"name": "$.key", "schema": "$.is", "type": "$.kind", "required": "$.must", "description": "$.about"}
    assert parameters(declared, **paths) == (
        Parameter("a", {"type": "integer"}, True, "First."),
        Parameter("b", {"anyOf": [{"type": "string"}, {"type": "null"}]}, True),
        Parameter("c", {"enum": [1]}, True),
        Parameter("d", True, False),
        Parameter("e", True, False),
    )


def test_where_optional_is_said_the_others_are_required() -> None:
    found = parameters([{"n": "a", "opt": True}, {"n": "b", "opt": False}, {"n": "c"}], name="$.n", optional="$.opt")
    assert found is not None
    assert [parameter.required for parameter in found] == [False, True, True]


def test_a_map_of_types_names_parameters_by_its_keys() -> None:
    listed = {"id": "m", "args": {"a": "int", "b": "str"}}
    found = method([listed], parameters="$.args.*", parameter={"type": "$"})
    assert found.parameters == (Parameter("a", {"type": "integer"}), Parameter("b", {"type": "string"}))
    assert found.structure is Structure.UNKNOWN


def test_parameters_without_names_are_passed_by_position() -> None:
    found = method(
        [{"id": "m", "args": [{"t": "int"}, {"t": "str"}]}], parameters="$.args[*]", parameter={"type": "$.t"}
    )
    assert [parameter.name for parameter in found.parameters or ()] == ["arg0", "arg1"]
    assert found.structure is Structure.BY_POSITION


def test_references_point_into_the_whole_listing() -> None:
    document = {"calls": [{"id": "m"}], "types": {"T": {}}}
    assert method(document, methods="$.calls[*]").root == document


def test_one_entry_too_many_parameters_is_quarantined_and_the_others_stay() -> None:
    many = [{"name": str(number)} for number in range(custom.MAX_PARAMETERS + 1)]
    listing = read([{"id": "a", "args": []}, {"id": "b", "args": many}], parameters="$.args[*]")
    assert [found.name for found in listing.methods] == ["a"]
    (fault,) = listing.quarantined
    assert (fault.name, fault.remedy) == ("b", "narrow backend.listing.custom.parameters")


def test_more_methods_than_any_service_has_are_left_out_and_that_is_told() -> None:
    listing = read([str(number) for number in range(custom.MAX_METHODS + 1)], name=None)
    assert len(listing.methods) == custom.MAX_METHODS
    assert "finds more than 20000 methods" in listing.notes[0]


# --- whatever it is -------------------------------------------------------------------------------------------

PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8)
KEYS = st.sampled_from(["id", "args", "key", "kind", "must", "in", "out", "about", "x"])
DOCUMENTS = st.recursive(
    PLAIN,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=6),
    max_leaves=40,
)
FORMS = (
    form(),
    form(methods="$..*", name=None, parameters="$..*", parameter={"schema": "$", "type": "$"}),
    form(
        methods="$.*",
        title="$.about",
        description="$.about",
        parameters="$.args[*]",
        parameter={
            "name": "$.key",
            "schema": "$.in",
            "type": "$.kind",
            "required": "$.must",
            "description": "$..about",
        },
        input_schema="$.in",
        result="$.out",
    ),
)


@pytest.mark.parametrize("knobs", FORMS, ids=["few", "everything", "each"])
@settings(max_examples=80, deadline=None, derandomize=True)
@given(document=DOCUMENTS)
async def test_any_document_is_a_listing_of_named_methods_or_none(knobs: CustomListing, document: Any) -> None:
    try:
        listing = await Custom().fetch_listing(Asked(document, knobs))
    except NoListing:
        return
    assert listing.methods
    assert all(found.name and isinstance(found.name, str) for found in listing.methods)
    for found in listing.methods:
        names = [parameter.name for parameter in found.parameters or ()]
        assert len(names) == len(set(names))


async def test_what_is_too_deep_for_the_paths_is_no_listing() -> None:
    document: Any = []
    for _ in range(5000):
        document = [document]
    with pytest.raises(NoListing, match=r"nested too deeply for \$\.\.\*"):
        await Custom().fetch_listing(Asked(document, form(methods="$..*")))
