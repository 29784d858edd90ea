"""Measure what checking a value against a schema can cost: the schema before it is used, the value before the check.

A validator visits a subschema once for every path that leads to it. So a ladder of ``anyOf`` over ``$ref`` doubles the
work with each rung: 25 rungs are a few hundred bytes and hold the interpreter for seconds. Here each subschema is
measured once: how many apply to the same value (``breadth``), and whether that number *grows* while the validator
descends into a value. Weights of keywords are as measured with jsonschema_rs 0.60.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any, Final, NamedTuple

from gateway import jsonrpc
from gateway.jsonrpc import MAX_DEPTH, resolve
from gateway.model.schema_keywords import OF_ITEMS, OF_MEMBERS, in_place
from gateway.schema.patterns import MAX_PAIRED, WORD, weigh_literals, weigh_uniqueness, weight_of, weight_of_floats

MAX_APPLICATORS: Final = 2000
MAX_WORK: Final = 1_000_000
"""Maximum subschemas that one check applies: values times breadth. About 30 ns each."""
MAX_CHAIN: Final = 200
"""Longest chain of references and combined schemas that apply to the same value. Measuring recurses along it."""
MAX_REEVALUATIONS: Final = 10
"""Maximum levels of a value at which combined schemas are evaluated again."""

_ANY: Final = "*"
_UNEVALUATED: Final = ("unevaluatedProperties", "unevaluatedItems")
_REEVALUATION_FACTOR: Final = 3
"""The engine evaluates combined schemas again: up to 2.7 times the work for each keyword that applies to one value, and
twice the work for each level below, where references are not recursive."""
_NAMES_PER_SCHEMA: Final = 3
"""Names, or plain values of an enum, that are compared in the time of one subschema."""
_NAMES_PER_FAULT: Final = 2
_QUOTED_PER_FAULT: Final = 256
"""Required names, and bytes of an enum or const, that cost as much as one fault."""
_CHOICES: Final = frozenset(("anyOf", "oneOf", "not", "if", "contains", "dependentSchemas"))


class TooCostly(Exception):
    """Raised where checking against a schema could take too long; the text says why."""


@dataclass(slots=True)
class _Node:
    """Hold the sums of one subschema and of all that apply to the same value. ``children`` counts, for each child of
    the value, how often each subschema applies to it, by ``id()``; ``reevaluations`` counts repeated evaluations."""

    breadth: int = 1
    reevaluations: int = 0
    children: dict[tuple[str, str], Counter[int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Cost:
    """Hold what checking a value costs at most: ``breadth`` subschemas for one value, ``numbers`` of ``weight`` that
    one subschema compares it with, and ``faults``, in units of one, for the faults of one subschema. ``chooses`` says
    that subschemas may fail while the whole holds, so that one fault can contain many; ``unique`` that items are
    compared with each other; ``names`` that each name can be a fault, which quotes the whole."""

    breadth: int
    chooses: bool
    numbers: int = 0
    weight: int = 0
    unique: bool = False
    faults: int = 1
    names: bool = False


def measure_cost(schema: Mapping[str, Any]) -> Cost:
    """Return what checking against a self-contained schema costs. Raises :class:`TooCostly`."""
    measure = _Measure(schema)
    widest = max(node.breadth for node in measure.nodes.values())
    if widest > MAX_APPLICATORS:
        raise TooCostly(f"its combined alternatives come to {_format_count(widest)}, more than {MAX_APPLICATORS}")
    if measure.most_reevaluations(id(schema)) > MAX_REEVALUATIONS:
        raise TooCostly(f"unevaluatedProperties or unevaluatedItems nest deeper than {MAX_REEVALUATIONS} levels")
    breadth, schemas = max(widest, measure.growth(id(schema))), measure.schemas.values()
    literals = list(map(weigh_literals, schemas))
    return Cost(
        breadth,
        chooses=any(not _CHOICES.isdisjoint(one) for one in schemas),
        numbers=max(count for count, _ in literals),
        weight=max(weight for _, weight in literals),
        unique=any(one.get("uniqueItems") is True for one in schemas),
        faults=max(map(_fault_cost, schemas)),
        names=any("propertyNames" in one for one in schemas),
    )


class _Measure:
    """Measure the subschemas of one schema, each once. They are known by ``id()``, as mappings cannot be hashed."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self.root = root
        self.nodes: dict[int, _Node] = {}
        self.schemas: dict[int, Mapping[str, Any]] = {}
        self._open: set[int] = set()
        pending = [root]
        while pending:
            top = pending.pop()
            if id(top) not in self.nodes:
                node = self._in_place(top)
                pending += [self.schemas[child] for counter in node.children.values() for child in counter]

    def _in_place(self, schema: Mapping[str, Any]) -> _Node:
        key = id(schema)
        if key in self.nodes:
            return self.nodes[key]
        if key in self._open:
            raise TooCostly("a reference leads back to itself without a property or an item between")
        if len(self._open) >= MAX_CHAIN:
            raise TooCostly(f"its references form a chain of more than {MAX_CHAIN}")
        self._open.add(key)
        self.schemas[key] = schema
        node = _Node(1 + _composites(schema.get("enum")) + _lookups(schema) // _NAMES_PER_SCHEMA)
        factor = _REEVALUATION_FACTOR ** sum(keyword in schema for keyword in _UNEVALUATED)
        for child_key, child in _descents(schema):
            if isinstance(child, Mapping):
                self.schemas[id(child)] = child
                node.children.setdefault(child_key, Counter())[id(child)] += 1
        referred = resolve(self.root, schema["$ref"]) if isinstance(schema.get("$ref"), str) else None
        for child in (*in_place(schema), referred):
            if not isinstance(child, Mapping):
                continue
            inner = self._in_place(child)
            node.breadth += inner.breadth * factor
            node.reevaluations = max(node.reevaluations, inner.reevaluations + (factor > 1))
            for child_key, counter in inner.children.items():
                node.children.setdefault(child_key, Counter()).update(counter)
        self._open.discard(key)
        self.nodes[key] = node
        return node

    def most_reevaluations(self, start: int) -> int:
        """Return the most nodes on one path into the value that evaluate again. A path ends where it recurs."""
        if not any(node.reevaluations for node in self.nodes.values()):
            return 0
        levels: dict[int, int] = {}
        entered: set[int] = set()
        pending = [(start, False)]
        while pending:
            key, is_leaving = pending.pop()
            targets = {target for counter in self.nodes[key].children.values() for target in counter}
            if is_leaving:
                below = max((levels.get(target, 0) for target in targets), default=0)
                levels[key] = self.nodes[key].reevaluations + below
            elif key not in entered:
                entered.add(key)
                pending.append((key, True))
                pending += [(target, False) for target in targets - entered]
        return levels[start]

    def growth(self, start: int) -> int:
        """Return the most subschemas that apply to one value on the worst path, as deep as a request can nest."""
        groups = {key: _groups(node) for key, node in self.nodes.items() if node.children}
        if all(sum(group.values()) <= 1 for of_node in groups.values() for group in of_node):
            return 0  # no child of a value is checked twice, so nothing multiplies
        work = {key: node.breadth for key, node in self.nodes.items()}
        most = 0
        for _ in range(MAX_DEPTH):
            following = {key: _worst(of_node, work) for key, of_node in groups.items()}
            most = max(most, following.get(start, 0))
            if most > MAX_APPLICATORS:
                raise TooCostly("its alternatives multiply with each level of the value")
            # A subschema that reaches no value at this depth reaches none that is deeper.
            following = {key: amount for key, amount in following.items() if amount}
            if following == work or not following:
                break
            work = following
            groups = {key: groups[key] for key in work}
        return most


def _composites(enum: Any) -> int:
    """Return how many values there are within the objects and lists of an enum, at all levels."""
    pending = [value for value in enum if isinstance(value, Mapping | list)] if isinstance(enum, list) else []
    count = 0
    while pending and count <= MAX_APPLICATORS:
        value = pending.pop()
        children = list(value.values()) if isinstance(value, Mapping) else value
        count += 1 + len(children)
        pending += [child for child in children if isinstance(child, Mapping | list)]
    return count


def _lookups(schema: Mapping[str, Any]) -> int:
    """Return how many names and plain values are compared one by one. Values of one type are looked up."""
    enum, dependent = schema.get("enum"), schema.get("dependentRequired")
    count = 0
    if isinstance(enum, list) and len({type(value) for value in enum}) > 1:
        count = sum(not isinstance(value, Mapping | list) for value in enum)
    if isinstance(dependent, Mapping):
        count += sum(1 + len(names) for names in dependent.values() if isinstance(names, list))
    return count


def _fault_cost(schema: Mapping[str, Any]) -> int:
    """Return what the faults of one subschema cost: one for each required name, and each quotes its enum or const."""
    required, quoted = schema.get("required"), [schema[keyword] for keyword in ("enum", "const") if keyword in schema]
    names = len(required) if isinstance(required, list) else 0
    return 1 + names // _NAMES_PER_FAULT + len(jsonrpc.encode(quoted)) // _QUOTED_PER_FAULT


def _groups(node: _Node) -> list[Counter[int]]:
    """Return how often each subschema applies to each child of a value that the schema distinguishes."""
    everywhere = {kind: node.children.get((kind, _ANY), Counter[int]()) for kind in ("member", "item")}
    return [
        counter if name == _ANY or not everywhere[kind] else counter + everywhere[kind]
        for (kind, name), counter in node.children.items()
    ]


def _worst(groups: list[Counter[int]], work: dict[int, int]) -> int:
    return max(sum(times * work.get(target, 0) for target, times in group.items()) for group in groups)


def _descents(schema: Mapping[str, Any]) -> Iterator[tuple[tuple[str, str], Any]]:
    """Yield each subschema that applies to a child of the value, behind the kind and name of that child."""
    properties, patterns, prefix = (schema.get(one) for one in ("properties", "patternProperties", "prefixItems"))
    if isinstance(properties, Mapping):
        yield from ((("member", name), child) for name, child in properties.items())
    if isinstance(patterns, Mapping):
        yield from ((("member", _ANY), child) for child in patterns.values())
    if isinstance(prefix, list):
        yield from ((("item", str(position)), child) for position, child in enumerate(prefix))
    for kind, keywords in (("member", OF_MEMBERS), ("item", OF_ITEMS)):
        yield from (((kind, _ANY), schema[keyword]) for keyword in keywords if keyword in schema)


def _format_count(number: int) -> str:
    return str(number) if number < 10**9 else f"about 10^{len(str(number)) - 1}"


class Size(NamedTuple):
    """Hold how many ``values`` a value consists of, the ``characters`` of its texts and names, and the count and weight
    of its ``numbers``. An integer beyond a word counts as so many values as it weighs. ``uniqueness`` is the work of
    comparing the items of each array with each other."""

    values: int
    characters: int
    numbers: int
    weight: int
    uniqueness: int


_MEMBERS: Final = 16
_CHARACTERS: Final = 256
LARGEST_SMALL: Final = Size(1 + _MEMBERS, 2 * _CHARACTERS * _MEMBERS, _MEMBERS, 0, 0)
"""Bound what :func:`is_small` accepts, as :func:`size_of` would weigh it."""


def is_small(value: Any) -> bool:
    """Return whether a value is an object of few members: short texts, integers of one word, truth values, nulls."""
    if type(value) is not dict or len(value) > _MEMBERS:
        return False
    for member in value.values():
        kind = type(member)
        if kind is str:
            if len(member) > _CHARACTERS:
                return False
        elif kind is int:
            if not -WORD <= member < WORD:
                return False
        elif kind is not bool and member is not None:
            return False
    return not value or max(map(len, value)) <= _CHARACTERS


def size_of(value: Any, most: int = MAX_WORK) -> Size:
    """Return the size of a value. Beyond ``most`` values it stops: only that there are more is known then."""
    values = characters = numbers = weight = huge = huge_weight = nesting = 0
    pairs = False
    level: list[Any] = [value]
    while level and values + len(level) <= most:
        # A level at a time: to look at each object or array by itself would take four times as long.
        values += len(level)
        kinds = set(map(type, level))
        if str in kinds:
            characters += sum(map(len, _of_type(str, level, kinds)))
        if int in kinds:
            found = _of_type(int, level, kinds)
            numbers += len(found)
            if not -WORD <= min(found) <= max(found) < WORD:
                beyond = [number for number in found if not -WORD <= number < WORD]
                huge += len(beyond)
                huge_weight += sum(map(weight_of, beyond))
        if float in kinds:
            found = _of_type(float, level, kinds)
            numbers += len(found)
            weight += weight_of_floats(found)
        objects, arrays = _of_type(dict, level, kinds), _of_type(list, level, kinds)
        characters += sum(map(len, chain.from_iterable(objects)))
        nesting += bool(arrays)
        pairs = pairs or any(1 < length <= MAX_PAIRED for length in set(map(len, arrays)))
        children = chain(chain.from_iterable(map(dict.values, objects)), chain.from_iterable(arrays))
        level = list(islice(children, most + 1))
    weight += huge_weight
    uniqueness = nesting * weigh_uniqueness(values, weight, pairs=pairs) + huge * huge_weight
    return Size(values + huge_weight + len(level), characters, numbers, weight, uniqueness)


def _of_type(kind: type[Any], values: list[Any], kinds: set[type[Any]]) -> list[Any]:
    """Return the values of one kind; ``kinds`` are those of all of them."""
    if kind not in kinds:
        return []
    return values if len(kinds) == 1 else [value for value in values if type(value) is kind]
