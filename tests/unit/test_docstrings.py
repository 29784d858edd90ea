"""What is read of a method's description: its arguments' types, names and texts, and its result's type."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gateway.listing.docstrings import fill_from_docstring, parse_docstring
from gateway.listing.entries import schema_of_phrase
from gateway.model import Method, Parameter, Structure
from tests.each import each
from tests.pace import quickly

INTEGER = {"type": "integer"}
STRING = {"type": "string"}
NULL = {"type": "null"}
STRINGS = {"type": "array", "items": STRING}

SPHINX = """
    Find books.

    Looks at :class:`Title` alone.

    :param query: words to look for,
        in any order
    :type query: list of string
    :param int limit: how many
    :param exact: whether :class:`True` words count
    :type exact: :class:`bool`, optional
    :rtype: list of :class:`shop.Book` or :class:`None`
    :raises LookupError: never
"""
EPYTEXT = """
Find books.

@param query: words to look for, in any order
@type query: list of str
@param limit: how many
@type limit: int
@param exact: optional, whether true words count
@type exact: boolean
@rtype: array
@raises LookupError: never
"""
GOOGLE = """
Find books.

Args:
    query (list[str]): words to look for,
        in any order
    limit (int): how many
    exact (bool, optional): whether true words count

Returns:
    list: the books

Raises:
    LookupError: never
"""
NUMPY = """
Find books.

Parameters
----------
query : list of str
    words to look for,
    in any order
limit : int
    how many
exact : bool, default False
    whether true words count

Returns
-------
list
    The books.

Raises
------
LookupError
    never
"""
JSDOC = """
/**
 * Find books.
 *
 * @param {string[]} query - words to look for, in any order
 * @param {integer} limit how many
 * @param {boolean} [exact=false] - whether true words count
 * @returns {Array} the books
 * @throws {LookupError} never
 */
"""
PHPDOC = """
Find books.

@param array|string[] $query words to look for, in any order
@param int $limit how many
@param bool $exact optional, whether true words count
@return array
@throws LookupError never
"""


def shown(method: Method) -> dict[str, Any]:
    return {parameter.name: parameter.schema for parameter in method.parameters or ()}


@each("text", {"sphinx": SPHINX, "epytext": EPYTEXT, "google": GOOGLE, "numpy": NUMPY, "jsdoc": JSDOC})
def test_arguments_are_typed_and_described_as_the_text_does(text: str) -> None:
    listed = tuple(Parameter(name, required=True) for name in ("query", "limit", "exact"))
    method = fill_from_docstring(Method("find", description=text, parameters=listed))
    assert shown(method) == {"query": STRINGS, "limit": INTEGER, "exact": {"type": "boolean"}}
    assert [parameter.required for parameter in method.parameters or ()] == [True, True, False]
    described = [parameter.description for parameter in method.parameters or ()]
    assert described[:2] == ["words to look for, in any order", "how many"]
    assert "words count" in described[2]
    assert method.result in ({"type": "array"}, {"anyOf": [{"type": "array"}, NULL]})
    assert method.description.startswith("Find books.")
    assert "never" in method.description
    assert "how many" not in method.description


def test_phps_array_says_nothing_since_it_is_a_list_or_a_map() -> None:
    method = fill_from_docstring(Method("find", description=PHPDOC, parameters=None))
    assert shown(method) == {"query": True, "limit": INTEGER, "exact": {"type": "boolean"}}


def test_what_the_listing_says_itself_stays() -> None:
    listed = (
        Parameter("query", STRING, True, "The words."),
        Parameter("limit", {"default": None}),
        Parameter("exact", {"default": False}),
    )
    method = fill_from_docstring(Method("find", description=SPHINX, parameters=listed, result=STRING))
    assert shown(method) == {
        "query": STRING,
        "limit": {"anyOf": [INTEGER, NULL], "default": None},
        "exact": {"type": "boolean", "default": False},
    }
    assert (method.parameters or ())[0].description == "The words."
    assert method.result == STRING


def test_places_that_a_listing_only_counts_get_the_names_of_the_text() -> None:
    places = (Parameter("arg0", STRING, True), Parameter("arg1", INTEGER, True))
    text = "add(title, copies)\n\nAdd.\n\n:param copies: optional\n:param title: a title"
    method = fill_from_docstring(Method("add", description=text, parameters=places))
    assert shown(method) == {"title": STRING, "copies": INTEGER}
    assert [parameter.required for parameter in method.parameters or ()] == [True, False]


def test_a_place_that_stands_alone_gets_the_only_name() -> None:
    method = Method("add", description="Add.\n\n:param title: a title", parameters=(Parameter("arg0"),))
    assert list(shown(fill_from_docstring(method))) == ["title"]


def fields_in_each_form(*names: str) -> list[str]:
    """Return a description with fields of these names, in each of four forms."""
    return [
        "Divide.\n\n" + "\n".join(f":param {name}: the {name}" for name in names),
        "Divide.\n\n" + "\n".join(f"@param {name}: the {name}" for name in names),
        "Divide.\n\nArgs:\n" + "\n".join(f"    {name} (int): the {name}" for name in names),
        "Divide.\n\nParameters\n----------\n" + "\n".join(f"{name} : int\n    the {name}" for name in names),
    ]


@each("names", [("b", "a"), ("b",), ("a",), ("b", "a", "c")])
def test_fields_name_no_place_since_they_may_stand_in_any_order(names: tuple[str, ...]) -> None:
    places = (Parameter("arg0", INTEGER, True), Parameter("arg1", INTEGER, True))
    for text in fields_in_each_form(*names):
        listed = Method("div", description=text, parameters=places, structure=Structure.BY_POSITION)
        method = fill_from_docstring(listed)
        assert method.parameters == places
        assert method.description == text, "a model still reads what the arguments mean"


@each("names", [("b", "a"), ("b",), ("a",)])
def test_fields_without_places_are_never_sent_by_position(names: tuple[str, ...]) -> None:
    for text in fields_in_each_form(*names):
        listed = Method("div", description=text, parameters=None)
        positional = fill_from_docstring(replace(listed, structure=Structure.BY_POSITION))
        assert (positional.parameters, positional.description) == (None, text)
        named = fill_from_docstring(listed)
        assert (list(shown(named)), named.is_complete) == (list(names), False)


def test_a_text_that_names_another_number_of_arguments_names_none() -> None:
    places = (Parameter("arg0"), Parameter("arg1"))
    method = fill_from_docstring(Method("add", description=":param title: a title", parameters=places))
    assert list(shown(method)) == ["arg0", "arg1"]


CALLS: dict[str, dict[str, Any]] = {
    "add(a, b=1)": {"a": True, "b": False},
    "add(a: int, b: list[str] = [], c: dict[str, int] | None = None) -> int": {"a": True, "b": False, "c": False},
    "shop.add(a[, b[, c]])": {"a": True, "b": False, "c": False},
    "int add(string a, [int b])": {"a": True, "b": False},
    "add()": {},
}


@each(("line", "required"), CALLS.items())
def test_a_first_line_that_is_the_call_names_all_arguments(line: str, required: dict[str, bool]) -> None:
    text = f"{line}\n\nAdds."
    method = fill_from_docstring(Method("shop.add", description=text, parameters=None))
    assert method.parameters is not None
    assert {parameter.name: parameter.required for parameter in method.parameters} == required


def test_types_of_a_call_are_read() -> None:
    text = "add(a: int, b: list[str] = [], c: dict[str, int] | None = None) -> int"
    method = fill_from_docstring(Method("add", description=text, parameters=None))
    assert shown(method) == {"a": INTEGER, "b": STRINGS, "c": {"anyOf": [{"type": "object"}, NULL]}}
    assert method.result == INTEGER


def test_an_argument_that_is_taken_by_name_alone_makes_the_method_by_name() -> None:
    text = "add(a, *, b=1)"
    listed = Method("add", description=text, parameters=None, structure=Structure.BY_POSITION)
    assert fill_from_docstring(listed).structure is Structure.BY_NAME


@each("text", ["add(*items)", "Adds.\n\n:param *items: what to add", "Args:\n    *items: what"])
def test_what_collects_any_number_of_arguments_leaves_them_open(text: str) -> None:
    assert fill_from_docstring(Method("add", description=text, parameters=None)).parameters is None


PROSE = [
    "",
    "Return foo(bar).",
    "Note: this is no section\n\n    of: arguments",
    "Set it.\n\n:class:`True` to mute.",
    "Args:\n\nthere are none",
    "Results\n-------\nmany",
    "@see elsewhere",
]


@each("text", PROSE)
def test_prose_is_left_as_it_is(text: str) -> None:
    method = Method("add", description=text, parameters=None)
    assert fill_from_docstring(method) == method


PHRASES: dict[str, Any] = {
    "int": INTEGER,
    "list of string or :class:`None`": {"anyOf": [STRINGS, NULL]},
    ":class:`True` if successful, else :class:`False`": {"type": "boolean"},
    "dict, of (string, list) pairs": {"type": "object"},
    "Optional[int]": {"anyOf": [INTEGER, NULL]},
    "Union[int, str]": {"anyOf": [INTEGER, STRING]},
    "typing.List[str]": STRINGS,
    "Dict[str, int]": {"type": "object"},
    "Array<string>": STRINGS,
    "string|number": {"anyOf": [STRING, {"type": "number"}]},
    "?string": {"anyOf": [STRING, NULL]},
    "{'a', 'b'}": {"enum": ["a", "b"]},
    "{uri: list of Track}": {"type": "object"},
    "a list of strings": STRINGS,
    "int or str, optional": {"anyOf": [INTEGER, STRING]},
    "int, default 5": INTEGER,
    "Track": True,
    "list of Track": {"type": "array"},
    "Track or None": True,
    "*": True,
    "": True,
    "x" * 5000: True,
}


@each(("phrase", "schema"), PHRASES.items())
def test_a_type_in_words_is_a_schema_where_every_word_is_known(phrase: str, schema: Any) -> None:
    assert schema_of_phrase(phrase) == schema


HOSTILE = [
    ":param " + "a " * 10_000,
    "f(" + "[" * 20_000,
    "Args:\n" + "    a (" * 4000,
    "@param {" * 3000,
    "(" * 30_000,
]
HOSTILE += [":rtype: " + "list of " * 2000, ":type a: " + "[" * 5000, "a\n" + "-" * 20_000, "f(" + "a," * 10_000 + ")"]


@each("text", HOSTILE)
def test_no_text_takes_long(text: str) -> None:
    with quickly(0.05):
        fill_from_docstring(Method("f", description=text, parameters=None))


@each("text", ["", " ", "\t\n", "\n\n", "/** */", "\x1c"])
def test_a_description_of_blanks_says_nothing(text: str) -> None:
    assert parse_docstring(text, "f").arguments == {}


def test_what_python_passes_itself_is_no_argument() -> None:
    filled = fill_from_docstring(Method("shop.div", description="div(self, a, b=2)", parameters=None))
    assert [(one.name, one.required) for one in filled.parameters or ()] == [("a", True), ("b", False)]


def test_keywords_are_sent_by_name_only_where_the_names_are_known() -> None:
    counted = (Parameter("arg0", required=True), Parameter("arg1", required=True))
    two = Method("div", description="div(a, *, b)", parameters=counted)
    assert fill_from_docstring(two).structure is Structure.BY_NAME
    assert fill_from_docstring(replace(two, parameters=counted[:1])).structure is Structure.UNKNOWN
