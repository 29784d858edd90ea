"""Read the configuration's YAML: the safe core, without its surprises."""

import re
from typing import Any, Final

import yaml

_TAB: Final = "; indent with spaces, not with tabs"
_HINT: Final = "; check the indentation, put text with special characters in quotes, and begin a comment with #"


class NotYaml(ValueError):
    """Raised where a text cannot be read. The message has its origin, line and column, and may quote the text."""


class _StrictLoader(yaml.SafeLoader):
    """Load YAML's safe core with YAML 1.2's booleans (``off`` is a text), no duplicate keys, and no aliases: a few
    lines of these expand to gigabytes ("billion laughs")."""

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.constructor.ConstructorError(None, None, "aliases (*name) are not supported", mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key, mark = self.construct_object(key_node, deep=True), key_node.start_mark
            if not isinstance(key, str):
                # A list or a map is named without its content.
                name = key_node.value if isinstance(key_node, yaml.ScalarNode) else "of several values"
                raise yaml.constructor.ConstructorError(None, None, f"key {name} is not a text: quote it", mark)
            if key in seen:
                raise yaml.constructor.ConstructorError(None, None, f'key "{key}" occurs twice: keep one', mark)
            seen.add(key)
        return super().construct_mapping(node, deep=deep)


_StrictLoader.yaml_implicit_resolvers = {
    first: [one for one in resolvers if one[0].rpartition(":")[2] not in ("bool", "timestamp")]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_StrictLoader.add_implicit_resolver(
    "tag:yaml.org,2002:bool", re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF")
)


def _refuse_tag(loader: _StrictLoader, node: yaml.Node) -> Any:
    # The message leaves the tag out: it may be a password that begins with "!".
    raise yaml.constructor.ConstructorError(None, None, "tags (!name) are not supported", node.start_mark)


_StrictLoader.add_constructor(None, _refuse_tag)


def read_yaml(text: str, origin: str) -> Any:
    """Return one YAML document. Raises :class:`NotYaml` with ``origin``, line and column."""
    try:
        return yaml.load(text, Loader=_StrictLoader)  # noqa: S506, derived from SafeLoader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"{origin}:{mark.line + 1}:{mark.column + 1}" if mark else origin
        ours = isinstance(error, yaml.constructor.ConstructorError)
        hint = _TAB if "\\t" in (problem := error.problem or "") else "" if ours else _HINT
        raise NotYaml(f"{where}: {problem or error.context}{hint}") from None
    except RecursionError:
        raise NotYaml(f"{origin}: nested too deeply") from None
    except (yaml.YAMLError, ValueError) as error:
        raise NotYaml(f"{origin}: {error}") from None
    except (AttributeError, LookupError):  # of PyYAML, for !!timestamp x and !!bool x
        raise NotYaml(f"{origin}: a value is not what its tag (!!name) says") from None
