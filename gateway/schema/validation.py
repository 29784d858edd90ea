"""Check arguments and results against the schemas that backends declare, in bounded time.

The engine is jsonschema_rs: offline, so that no reference is ever fetched, with regular expressions of linear time.
It holds the interpreter while it works, so no check may take long, whatever a backend declares and a client sends: the
cost of a schema is bounded before it is compiled, and a large value is weighed against it. Collecting errors takes some
hundred times as long as deciding, and a fault of a large value quotes all of it, so only small values get details.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from itertools import chain, islice
from typing import Any, Final

import jsonschema_rs
from cachetools import FIFOCache, LRUCache

from gateway import jsonrpc
from gateway.jsonrpc import pointer_of, resolve
from gateway.model.schema_keywords import DEFINITIONS
from gateway.schema import patterns
from gateway.schema.bundling import DIALECT, UnsoundSchema
from gateway.schema.cost import LARGEST_SMALL, MAX_WORK, Cost, Size, TooCostly, is_small, measure_cost, size_of
from gateway.schema.patterns import SIZES
from gateway.schema.whole_numbers import MAY_CHANGE, IntegerPlaces
from gateway.text import did_you_mean, excerpt

MAX_FAULT: Final = 400
"""Maximum bytes of one fault."""
_MAX_LABELS: Final = 20
_MAX_ALTERNATIVES: Final = 5
_FAULTS_PER_ALTERNATIVE: Final = 2
_DEEPEST: Final = 3
"""References and alternatives that are followed to say what a schema takes."""
_NARROWEST: Final = 60
"""Minimum bytes of a fault among several."""
MAX_FAULTS: Final = 20
MAX_QUOTING: Final = 50_000
"""Maximum values of one that the engine may quote whole in its first fault. Up to 0.7 µs each."""
MAX_EXPLAINED: Final = 1_000
"""The same where errors are collected, times what those of one subschema cost. About 13 µs each."""
MAX_EXPLAINED_CHOICES: Final = 600
"""The same where errors hold the errors of alternatives. Up to 80 µs each."""
MAX_STEPS: Final = 350_000_000
"""Characters times bytes of compiled expressions in one check. About 0.15 ns each."""
_NARROW: Final = 4
"""Breadth up to which a value is not weighed: the check costs about as much as decoding the value did."""
_MAX_QUOTED: Final = 16 * 1024
_FOR_ONE_ARGUMENT: Final = ("$schema", "type", "properties", *DEFINITIONS)

MISMATCH: Final = "the value does not match the schema"
TOO_LARGE: Final = "the value is too large to be checked against this schema"


class Validator:
    """Hold a compiled schema. Where the texts of a value are too long for the regular expressions, or its numbers too
    costly to compare, both are left unchecked. ``integers`` knows where it may take integers alone, None: nowhere."""

    __slots__ = ("_cost", "_engine", "_most", "_relaxed", "_schema", "_takes_small", "_weight", "integers", "is_valid")

    is_valid: Callable[[Any], bool]

    def __init__(self, engine: Any, cost: Cost, schema: Mapping[str, Any], weight: int, *, integers: bool) -> None:
        self.integers = IntegerPlaces(schema) if integers else None
        self._engine = engine
        self._cost = cost
        self._schema = schema
        self._weight = weight
        self._most = MAX_WORK // max(cost.breadth, 2)
        self._relaxed: Any = None
        # A narrow schema without expressions, numbers and uniqueness needs no weighing: most schemas are so, and every
        # call comes through here.
        plain = cost.breadth <= _NARROW and not weight and not cost.numbers and not cost.unique
        self.is_valid = engine.is_valid if plain else self._is_valid
        self._takes_small = self._takes(LARGEST_SMALL) and LARGEST_SMALL.values * cost.breadth <= MAX_WORK

    def integers_in(self, arguments: Mapping[str, Any]) -> IntegerPlaces | None:
        """Return what writes whole numbers as integers, None where none of these arguments may be one or have one, as
        in nearly all calls."""
        if self.integers is None or MAY_CHANGE.isdisjoint(map(type, arguments.values())):
            return None
        return self.integers

    def errors(self, value: Any) -> list[Any] | None:
        """Return the engine's first :data:`MAX_FAULTS` errors of a value that ``is_valid`` refused, None where it would
        take long to collect them."""
        size = size_of(value, MAX_EXPLAINED)
        work = size.values * self._cost.breadth * self._cost.faults
        if self._cost.names:
            work *= 1 + size.values // 4  # each fault quotes all of them
        if work > (MAX_EXPLAINED_CHOICES if self._cost.chooses else MAX_EXPLAINED) or size.characters > _MAX_QUOTED:
            return None
        return list(islice(self._engine_for(size).iter_errors(value), MAX_FAULTS))

    def faults(self, value: Any) -> list[str]:
        """Return what is wrong with a value that ``is_valid`` refused, in at most :data:`MAX_FAULTS` places."""
        if (errors := self.errors(value)) is not None:
            return list(dict.fromkeys(describe_fault(error, self._schema) for error in errors))
        is_narrow = self._cost.breadth <= _NARROW
        size = size_of(value, MAX_QUOTING if is_narrow else self._most)
        if size.values > self._most and not is_narrow:
            return [TOO_LARGE]
        if self._cost.chooses or size.values > MAX_QUOTING:
            return [MISMATCH]
        try:
            self._engine_for(size).validate(value)
        except jsonschema_rs.ValidationError as error:
            return [describe_fault(error, self._schema)]
        return []

    def faulty_items(self, values: list[Any]) -> set[int]:
        """Return the places of a list at which a value is wrong; all places where that would take long to find out."""
        if self.is_valid(values):
            return set()
        size = size_of(values)
        if size.values * self._cost.breadth > MAX_EXPLAINED or size.characters > _MAX_QUOTED:
            return set(range(len(values)))
        return {error.instance_path[0] for error in self._engine_for(size).iter_errors(values)}

    def _is_valid(self, value: Any) -> bool:
        if self._takes_small and is_small(value):  # to weigh it would cost more than the check
            return bool(self._engine.is_valid(value))
        size = size_of(value, self._most)
        if size.values > self._most and self._cost.breadth > _NARROW:
            return False
        return bool(self._engine_for(size).is_valid(value))

    def _engine_for(self, size: Size) -> Any:
        """Return the engine; where comparing would take long, one without patterns, numbers and uniqueness."""
        if self._takes(size):
            return self._engine
        if self._relaxed is None:
            self._relaxed = _engine(patterns.remove_patterns_and_numbers(self._schema))
        return self._relaxed

    def _takes(self, size: Size) -> bool:
        """Return whether the engine takes a bounded time for the texts and numbers of a value of this size."""
        cost = self._cost
        compared = size.weight * cost.numbers + size.numbers * cost.weight + size.uniqueness * cost.unique
        texts = size.characters * self._weight
        return size.values <= self._most and texts <= MAX_STEPS and compared * cost.breadth <= MAX_WORK


class ValidatorCache:
    """Compile schemas, each once: equal schemas share one validator. ``most`` is the number that is kept."""

    def __init__(self, most: int = 10_000) -> None:
        self._compiled: LRUCache[bytes, Validator] = LRUCache(most)
        self._by_digest: FIFOCache[str, Validator] = FIFOCache(2 * most)

    def compile(self, schema: Mapping[str, Any]) -> Validator:
        """Return the validator of a schema. Raises :class:`UnsoundSchema` for one that is invalid or costs too much."""
        key = jsonrpc.encode_canonical(schema)
        known = self._compiled.get(key)
        if known is None:
            known = self._compiled[key] = self._compile(schema, key)
        return known

    def compile_alone(self, schema: Mapping[str, Any]) -> Validator:
        """Return what checks single arguments, without the rules of ``schema`` for several. Raises
        :class:`UnsoundSchema`."""
        return self.compile({keyword: schema[keyword] for keyword in _FOR_ONE_ARGUMENT if keyword in schema})

    def compile_tool(self, digest: str, schema: Mapping[str, Any]) -> Validator:
        """Return the validator by a digest that stands for the schema, so that no call has to serialize it."""
        try:
            return self._by_digest[digest]
        except KeyError:
            known = self._by_digest[digest] = self.compile(schema)
            return known

    def _compile(self, schema: Mapping[str, Any], key: bytes) -> Validator:
        try:
            cost = measure_cost(schema)
        except TooCostly as error:
            raise UnsoundSchema(str(error), _costly_part(schema)) from None
        checked, weight = schema, 0
        if b'"pattern' in key:
            admitted, weight = patterns.admit_patterns(schema, _weigh)
            checked = patterns.remove_patterns(schema, lambda pattern: pattern not in admitted)
        try:
            engine = _engine(checked)
        except (ValueError, jsonschema_rs.ReferencingError) as error:
            reason = excerpt(getattr(error, "message", str(error)), MAX_FAULT)
            pointer = pointer_of(getattr(error, "instance_path", ()))
            raise UnsoundSchema(f"not a JSON Schema: {reason}", pointer) from None
        return Validator(engine, cost, schema, weight, integers=b'"integer"' in key)


def _costly_part(schema: Mapping[str, Any]) -> str:
    """Return the pointer to the first property that alone costs too much, empty where there is none."""
    properties = schema.get("properties")
    for name, child in properties.items() if isinstance(properties, Mapping) else ():
        try:
            measure_cost({**schema, "properties": {name: child}})
        except TooCostly:
            return pointer_of(("properties", name))
    return ""


def _engine(schema: Mapping[str, Any], size: int = SIZES[-1]) -> Any:
    whole = {"$schema": DIALECT, **schema}
    options = jsonschema_rs.RegexOptions(size_limit=size)
    return jsonschema_rs.validator_for(whole, offline=True, pattern_options=options)


@lru_cache(10_000)
def _weigh(pattern: str) -> int | None:
    """Return the least of :data:`SIZES` that the compiled expression fits into, None where it fits into none."""
    return next((size for size in SIZES if _fits(pattern, size)), None)


def _fits(pattern: str, size: int) -> bool:
    try:
        _engine({"pattern": pattern}, size)
    except ValueError:
        return False
    return True


def describe_fault(error: Any, schema: Mapping[str, Any], most: int = MAX_FAULT) -> str:
    """Return where a value is wrong, and how, in at most ``most`` bytes. ``schema`` is the one of the whole value."""
    alternatives = getattr(error.kind, "context", None)
    if alternatives:
        nearest = _nearest(alternatives, len(error.instance_path))
        if nearest is not None:  # its own faults say more than that nothing fits
            shown = nearest[:_FAULTS_PER_ALTERNATIVE]
            return "; ".join(describe_fault(inner, schema, most // len(shown)) for inner in shown)
        text = f"{error.message} ({'; '.join(_each_alternative(alternatives, len(error.instance_path)))})"
    else:
        text = _text(error, schema)
    path = "/".join(map(str, error.instance_path))
    return excerpt(f"{path}: {text}" if path else text, max(most, _NARROWEST))


def _text(error: Any, schema: Mapping[str, Any]) -> str:
    kind = error.kind
    if kind.name == "enum" and len(kind.options) <= _MAX_LABELS:
        labels = [option for option in kind.options if isinstance(option, str)]
        value, options = jsonrpc.encode(error.instance), (jsonrpc.encode(option).decode() for option in kind.options)
        return f"{value.decode()} is not one of {', '.join(options)}{did_you_mean(error.instance, labels)}"
    if kind.name == "required":
        place = pointer_of((*error.schema_path[:-1], "properties", kind.property))
        return f"{error.message}: {expected(resolve(schema, f'#{place}'), schema)}".removesuffix(": ")
    # Of the whole value: the names that a part of the schema knows are not all.
    if error.schema_path == ["additionalProperties"] and "patternProperties" not in schema:
        known = list(schema.get("properties", {}))
        if not known:
            return "it takes no arguments"
        unexpected = " and ".join(f"'{name}'" for name in kind.unexpected[:_MAX_ALTERNATIVES])
        were = "was" if len(kind.unexpected) == 1 else "were"
        return f"{unexpected} {were} unexpected{did_you_mean(kind.unexpected[0], known)}; valid are {', '.join(known)}"
    return str(error.message)


def expected(schema: Any, whole: Mapping[str, Any], depth: int = 0) -> str:
    """Return which values a schema takes, in words: labels, or types; "" where it does not say."""
    if not isinstance(schema, Mapping) or depth > _DEEPEST:
        return ""
    if "$ref" in schema:
        return expected(resolve(whole, schema["$ref"]), whole, depth + 1)
    if labels := schema.get("enum"):
        return f"one of {', '.join(jsonrpc.encode(label).decode() for label in labels[:_MAX_LABELS])}"
    types = schema.get("type", ())
    alternatives = (*schema.get("anyOf", ()), *schema.get("oneOf", ()))[:_MAX_ALTERNATIVES]
    texts = ([types] if isinstance(types, str) else types, (expected(one, whole, depth + 1) for one in alternatives))
    return " or ".join(dict.fromkeys(filter(None, chain(*texts))))


def _nearest(alternatives: list[list[Any]], depth: int) -> list[Any] | None:
    """Return the faults of the alternative that a value comes closest to, None where none stands out: of those for its
    type, one whose constants fit, the one that fits deepest, and then the one with the fewest faults. ``depth`` is that
    of the value."""
    if not all(alternatives):  # under oneOf, two that fit are a fault too
        return None
    of_type = [
        errors
        for errors in alternatives
        if not any(one.kind.name == "type" and len(one.instance_path) == depth for one in errors)
    ]
    ranked = sorted(of_type, key=_rank)
    stands_out = len(ranked) == 1 or (len(ranked) > 1 and _rank(ranked[0]) < _rank(ranked[1]))
    return ranked[0] if stands_out else None


def _rank(errors: list[Any]) -> tuple[bool, int, int]:
    # A constant tells alternatives apart, so a value with another one is not meant for this one.
    is_other = any(error.kind.name == "const" or len(getattr(error.kind, "options", ())) == 1 for error in errors)
    return is_other, -max(len(error.instance_path) for error in errors), len(errors)


def _each_alternative(alternatives: list[list[Any]], depth: int) -> Iterator[str]:
    """Yield what is wrong with each of the first alternatives. Paths begin at the value."""
    for number, errors in enumerate(alternatives[:_MAX_ALTERNATIVES], 1):
        faults = []
        for error in errors[:_FAULTS_PER_ALTERNATIVE]:
            path = "/".join(map(str, error.instance_path[depth:]))
            faults.append(f"{path}: {error.message}" if path else error.message)
        yield f"alternative {number}: {', '.join(faults) or 'it fits'}"
