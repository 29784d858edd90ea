"""Apply the operator's patterns to methods: which are offered, and which overrides they get.

Patterns are shell globs and case-sensitive. A method's own name always matches it, even with glob characters in it.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import translate
from functools import lru_cache
from itertools import zip_longest
from typing import Any, Final

from gateway import jsonrpc
from gateway.catalog.names import NAME_RULES
from gateway.model import Catalog, NameStyle, Tool
from gateway.settings.catalog import EXCLUDED, Annotations, CatalogSettings, ResultShown, ToolOverride, has_one_star
from gateway.text import did_you_mean

# Judge by the words of a method's name whether it reveals a secret, moves money, or signs. Bitcoin and its forks write
# words together (``dumpprivkeys``). The words beside it decide what a word means: ``signin`` is not a signature,
# ``getpayment`` moves nothing.
WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_LONGEST: Final = 64
"""Characters of the longest word that is split: splitting takes time."""


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_REVEALS: Final = _set("backup dump export get list print query read reveal show view")
_TAKES: Final = _set("check import load recover restore set sign sweep validate verify")
_TAKES_FIRST: Final = _set("is test with")
"""Words that say so only where no word of _REVEALS stands before: ``exportwalletwithseed`` reveals."""
_READS: Final = _set(
    "analyze can check combine convert count decode describe estimate fetch find get has help is list lookup prepare "
    "query read search show simulate status test validate verify view watch"
)
_KEYS: Final = _set("key keys")
_SECRETS: Final = _set(
    "mnemonic mnemonics passphrase privkey privkeys seed seeds seedphrase xprv password passwords secret secrets "
    "credential credentials wif"
)
_ENDINGS: Final = _REVEALS | _set("bytes hex v words")
"""Words after a secret that do not change what is revealed, as numbers do not: ``seed.get``, ``getSeedHex``."""
_PAYS: Final = _set("keysend pay payout refund spend sweep transfer withdraw withdrawal")
_SENT: Final = _set("all calls coin coins from funds many money payment payments raw to transaction transactions tx")
_PAYMENTS: Final = _set("payment payments payout payouts transfer transfers withdrawal withdrawals")
_MAKES: Final = _set("confirm create execute make submit")
_SIGNS: Final = _set("cosign sign signs")
_NO_SIGNATURE: Final = _set("in off on out up")
_OTHERS: Final = _set(
    "account address addresses and balance block broadcast bump by data descriptor fee for funded hash hd in info "
    "invoice invoices master message multisig new of on out payload phrase priv private psbt recovery secure send "
    "typed unspent up utxo viewing wallet z"
)
_VOCABULARY: Final = (
    _REVEALS | _TAKES | _TAKES_FIRST | _READS | _KEYS | _SECRETS | _PAYS | _SENT | _PAYMENTS | _MAKES | _SIGNS | _OTHERS
)

CHANGES_SITE: Final = _set(
    "cache.rebuild maintenance_mode.isEnabled route_builder.rebuild user_permissions.add_permission_to_role"
)
"""Methods of Drupal's jsonrpc_core with an effect on the whole site. ``isEnabled`` turns the mode on and off."""


@lru_cache(20_000)
def reveals_secret(method: str) -> bool:
    """Return whether a method returns what opens a wallet or an account, rather than taking it."""
    words = _words(method)
    if _takes(words):
        return False
    found = set(words)
    private = {"priv", "private", "secret", "master", "spend", "xprv"} & found
    if (
        (private and _KEYS & found)
        or found >= {"master", "private"}
        or {"privkey", "privkeys", "mnemonic", "mnemonics"} & found
        or ("phrase" in found and {"seed", "recovery"} & found)
        or ({"dump", "export"} & found and ({"wallet", "hd"} | _KEYS) & found)
        or words == ("query", "key")  # of Monero's wallet
    ):
        return True
    last = next((word for word in reversed(words) if word not in _ENDINGS and not word.isdigit()), "")
    return last in _SECRETS and bool(_REVEALS & found)


def _takes(words: Sequence[str]) -> bool:
    """Return whether a method takes a secret from its caller."""
    first = next((word for word in words if word in _REVEALS or word in _TAKES_FIRST), "")
    return bool(_TAKES & set(words)) or first in _TAKES_FIRST


@lru_cache(20_000)
def moves_value(method: str) -> bool:
    """Return whether a method moves money or signs, which cannot be undone."""
    words = _words(method)
    if _READS & set(words):
        return False
    following = list(zip_longest(words, words[1:], fillvalue=""))
    if any(word in _SIGNS and after not in _NO_SIGNATURE for word, after in following):
        return True
    sends = any(word == "send" and after in _SENT for word, after in following) or words == ("send",)
    pairs = {("bump", "fee"), ("broadcast", "transaction"), ("broadcast", "tx")} & set(following)
    return sends or bool(pairs) or bool(_PAYS & set(words)) or bool(_MAKES & set(words) and _PAYMENTS & set(words))


def _words(method: str) -> Sequence[str]:
    return tuple(part for word in WORD.findall(method) for part in _parts(word.casefold()))


def _parts(word: str) -> Sequence[str]:
    """Return the fewest known words that make up a word, or the word itself where none do."""
    if word in _VOCABULARY or len(word) > _LONGEST:
        return (word,)
    best: list[tuple[str, ...] | None] = [(), *[None] * len(word)]
    for end in range(1, len(word) + 1):
        for start in range(max(0, end - 12), end):
            before = best[start]
            if before is not None and word[start:end] in _VOCABULARY:
                found = best[end]
                if found is None or len(before) + 1 < len(found):
                    best[end] = (*before, word[start:end])
    return best[-1] or (word,)


_SHOWN: Final = 3
_LEFT_OUT: Final = 500
_MOST_SECRETS: Final = 20


class Curation:
    """Decide by the catalog settings which methods are offered, with which overrides."""

    def __init__(self, settings: CatalogSettings) -> None:
        self._settings = settings
        self._include = _matcher(settings.include)
        self._exclude = _matcher(settings.exclude)
        self._hides_secrets = settings.exclude == EXCLUDED
        self._overrides = [(pattern, _matcher([pattern]), override) for pattern, override in settings.tools.items()]

    def offers(self, method: str) -> bool:
        if not self._include(method) or self._exclude(method):
            return False
        return not (self._hides_secrets and reveals_secret(method))

    def secrets(self, hidden: Iterable[str]) -> list[str]:
        """Return those of the hidden methods that only their names hide."""
        return [name for name in hidden if self._hides_secrets and not self._exclude(name) and reveals_secret(name)]

    def hiding(self, method: str, secrets: Sequence[str]) -> tuple[str, str]:
        """Return why a method is not offered, and the YAML that offers it; "" where that would be long. ``secrets`` are
        the methods that the default of ``exclude`` hides by their names: a list of one's own has to name them."""
        patterns = [pattern for pattern in self._settings.exclude if _matcher([pattern])(method)]
        lines, why = [], "hidden because its name says that it reveals a secret"
        if not self._include(method):
            why = "hidden because no pattern of catalog.include matches"
            lines.append(f"  include: {_flow([*self._settings.include, method])}")
        if patterns or method in secrets:
            others = [pattern for pattern in self._settings.exclude if pattern not in patterns]
            kept = [*others, *(name for name in secrets if name != method)]
            # A list that equals the default would hide the method again.
            lines.append(f"  exclude: {_flow([*kept, kept[0]] if tuple(kept) == EXCLUDED else kept)}")
        if patterns:
            why = f'hidden by catalog.exclude: "{patterns[0]}"'
        is_long = len(secrets) > _MOST_SECRETS and any(line.startswith("  exclude:") for line in lines)
        return why, "" if is_long else "\n".join(("catalog:", *lines))

    def override_for(self, method: str) -> ToolOverride:
        """Return all overrides that match, merged knob by knob; later ones win."""
        merged: dict[str, Any] = {}
        for pattern, matches, override in self._overrides:
            if matches(method):
                for name in override.model_fields_set:
                    value, before = getattr(override, name), merged.get(name)
                    if name == "arguments":
                        value = _merge_arguments(before or {}, value)
                    elif name == "name" and value is not None:
                        value = _expand_name(value, pattern, method)
                    elif isinstance(before, Annotations | ResultShown):
                        value = before.model_copy(update=value.model_dump(exclude_unset=True))
                    merged[name] = value
        return ToolOverride.model_construct(**(ToolOverride().__dict__ | merged))

    def remarks(self, methods: Iterable[str]) -> Iterator[str]:
        """Yield a sentence for each pattern that does not fit the listing. Often a name is misspelled."""
        listed = list(methods)
        if not listed:
            return
        # The default patterns of exclude are ours, and few services have methods that they match.
        own = [pattern for pattern in self._settings.exclude if pattern not in EXCLUDED]
        for knob, patterns in (("include", self._settings.include), ("exclude", own)):
            for pattern in patterns:
                if not any(map(_matcher([pattern]), listed)):
                    yield f'catalog.{knob}: "{pattern}" matches no method of the listing'
        hidden = [name for name in listed if _BY_DEFAULT(name) or reveals_secret(name)]
        named = {*self._settings.include, *self._settings.tools}  # what the operator names exactly is meant
        exposed = [name for name in hidden if self.offers(name) and name not in named]
        if exposed:
            yield (
                f"{list_some(exposed)}: hidden by default, and offered because catalog.exclude has a list of its own; "
                "add them to that list, or to catalog.include if you want to offer them"
            )
        for pattern, matches, override in self._overrides:
            matched = [method for method in listed if matches(method)]
            offered = [method for method in matched if self.offers(method)]
            if not matched:
                near = did_you_mean(pattern, () if "*" in pattern else listed)
                yield f'catalog.tools: "{pattern}" matches no method of the listing{near}'
            elif not offered:
                yield f'catalog.tools: "{pattern}" matches only methods that catalog.include and exclude leave out'
            elif override.name is not None and "*" not in override.name and len(offered) > 1:
                yield (
                    f'catalog.tools: "{pattern}" gives {len(offered)} methods one name; all but one get a suffix. '
                    "Put a * into the name; it becomes what the * of the pattern matches"
                )


def left_out(catalog: Catalog, settings: CatalogSettings, service: str, services: int = 1) -> list[dict[str, Any]]:
    """Return the first methods that are not offered, each with the reason, the place, and the YAML that offers it.
    ``service`` is the name of its settings, "" at the top level. It has its part of what one page shows of all."""
    curation, rows, most = Curation(settings), list[dict[str, Any]](), _LEFT_OUT // services

    def add(name: str, why: str, yaml: str, at: str = "", remedy: str = "", changes: Sequence[str] = ()) -> None:
        rows.append(
            {"name": name, "why": why, "yaml": placed(service, yaml), "at": at, "remedy": remedy, "changes": changes}
        )

    for one in catalog.quarantined[:most]:
        method, argument = (jsonrpc.encode(text).decode() for text in (one.name, one.argument))
        freed = f"catalog:\n  tools:\n    {method}:\n      arguments:\n        {argument}:\n          schema: {{}}"
        add(one.name, one.reason, "" if one.argument is None else freed, one.pointer, one.remedy, one.changes)
    secrets = curation.secrets(catalog.hidden)
    for name in catalog.hidden[: most - len(rows)]:
        add(name, *curation.hiding(name, secrets))
    return rows


def placed(service: str, yaml: str) -> str:
    """Return YAML of a service's settings as it stands in the file: below its name, at the top level without one."""
    below = "".join(f"\n    {line}" for line in yaml.splitlines())
    return f"services:\n  {service}:{below}" if service and yaml else yaml


def _flow(texts: Iterable[str]) -> str:
    """Return a list of texts as YAML, which JSON is."""
    return f"[{', '.join(jsonrpc.encode(text).decode() for text in texts)}]"


def list_some(names: Sequence[str]) -> str:
    """Return the first few of many names, and how many more there are."""
    shown = ", ".join(names[:_SHOWN])
    return shown if len(names) <= _SHOWN else f"{shown} and {len(names) - _SHOWN} more"


def _merge_arguments(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """Return the overrides of arguments merged knob by knob; later ones win."""
    merged = dict(before)
    for name, argument in after.items():
        changed = {knob: getattr(argument, knob) for knob in argument.model_fields_set}
        merged[name] = merged[name].model_copy(update=changed) if name in merged else argument
    return merged


def _expand_name(name: str, pattern: str, method: str) -> str:
    if "*" not in name or not has_one_star(pattern):
        return name
    head, _, tail = pattern.partition("*")
    return name.replace("*", method[len(head) : len(method) - len(tail)])


def _matcher(patterns: Iterable[str]) -> Callable[[str], Any]:
    together = "|".join(rf"{translate(pattern)}|{re.escape(pattern)}\Z" for pattern in patterns)
    return re.compile(together or r"(?!)").match


_BY_DEFAULT: Final = _matcher(EXCLUDED)


def lint_catalog(catalog: Catalog, settings: CatalogSettings) -> Iterator[str]:
    """Yield what an operator should know about a catalog that works, one sentence each, with what can be done."""
    for applies, remark in _REMARKS:
        found = [tool for tool in catalog.tools if applies(tool, settings)]
        if found:
            names = list_some([tool.name for tool in found])
            yield f"{names}: {remark.format(structure=found[0].binding.structure)}"
    offered = [tool.method for tool in catalog.tools] + [method.name for method in catalog.quarantined]
    yield from Curation(settings).remarks([*offered, *catalog.hidden])
    yield from catalog.notes
    yield from (str(fault) for fault in catalog.endpoints if fault.kind == "odd")


def lacks_description(tool: Tool) -> bool:
    """Return whether the description is missing or only repeats the name."""
    return tool.description in ("", tool.name, tool.method)


_REMARKS: Final[tuple[tuple[Callable[[Tool, CatalogSettings], Any], str], ...]] = (
    (
        lambda tool, settings: settings.names == "mcp" and not NAME_RULES[NameStyle.LLM].accepts(tool.name),
        "names that most LLM APIs refuse ([A-Za-z0-9_-]{{1,64}}); "
        "set catalog.names: llm to publish others, or add ?names=llm to the endpoint's URL for one client",
    ),
    (
        lambda tool, _: tool.binding.spread_argument is not None,
        "parameters unknown, taken as one argument, params; name them under catalog.tools.*.arguments or in a listing "
        "file",
    ),
    (
        lambda tool, _: not tool.binding.structure_is_known,
        "called {structure}, which is a guess; try a method that changes nothing (`tools --try`), then set "
        "backend.params.structure",
    ),
    (
        lambda tool, _: lacks_description(tool),
        "no description, so a model sees only the name; set catalog.tools.*.description",
    ),
    (
        lambda tool, _: "outputSchemaDropped" in tool.meta,
        "the listing's output schema is unusable and not published",
    ),
    (
        lambda tool, _: tool.drops_defaults,
        "defaults that their own schema refuses are not published; the service may use them",
    ),
    (
        lambda tool, _: tool.input_check is not None or tool.output_check is not None,
        "the schema has values or names with characters that people cannot see; they are not published, but still "
        "accepted",
    ),
    (
        lambda tool, _: moves_value(tool.method) and tool.annotations.get("destructiveHint"),
        "by their names they move money or sign, and are marked destructive; add those that you do not want to "
        "catalog.exclude, or set confirm: destructive to have a person agree to each call",
    ),
)
