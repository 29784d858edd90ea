"""Rank the tools of a catalog by the words of a query, and tell which tools belong together.

Tools are ranked by BM25 over names, titles, descriptions and names of arguments, with a weight for each (Robertson and
Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009, §3.3). Libraries for it depend on NumPy.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gateway.concurrency.turns import Turns
from gateway.model import Tool

_K1: Final = 1.2
_B: Final = 0.75
_NAME, _TITLE, _ARGUMENT, _DESCRIPTION = 4.0, 2.0, 1.5, 1.0
_PART: Final = 0.4
"""Share of the score for a word that begins or ends with the query's word, or abbreviates it."""
_SYNONYM: Final = 0.5
_READING: Final = 0.5
_MIN_GROUP: Final = 3
"""Tools of the least group."""
_MAX_SHARE: Final = 0.5
"""Share of all tools that the largest group may have."""
# Bounds of the work for one query, which any caller chooses.
_MIN_PREFIX: Final = 3
_MIN_STEM: Final = 4
_MAX_COMPLETIONS: Final = 20
_MAX_TERMS: Final = 32
# Scripts without spaces between words: a character is a word.
_IDEOGRAPHS: Final = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_WORD: Final = re.compile(rf"[{_IDEOGRAPHS}]|[^\W_{_IDEOGRAPHS}]+")
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_HYPHENATED: Final = re.compile(r"[^\W\d_]+-[^\W\d_]+")
_GROUP: Final = re.compile(r"(?:(.+)[./:]|([^./:_\-]+)[_\-])[^./:]+")

Words = Mapping[str, float]


def words_of(text: str) -> list[str]:
    """Return the words of a text or a name, in lower case and singular: those of ``getBlockHash`` and ``Get block
    hashes`` are equal."""
    return [_singular(word) for word in _WORD.findall(_HUMP.sub(" ", text).casefold())]


def _singular(word: str) -> str:
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    if len(word) > 4 and word.endswith(("shes", "ches", "xes", "sses")):
        return word[:-2]
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


_FILLERS: Final = frozenset(
    words_of(
        "a all an and are as at be been by can did do does each every for from has have how i if in into is it its me "
        "my of on one or our please so than that the their them then there these this those to was we were what when "
        "where whether which who whose will with would you your"
    )
)
"""Words of a query that do not describe a tool."""
_READ: Final = "get"
_SYNONYMS: Final = {
    word: family.split()[0]
    for family in (
        "get fetch find list look lookup query read retrieve search see show view",
        "add create insert make new register",
        "change edit modify put save set switch turn update write",
        "clear delete destroy drop erase remove",
        "copy clone duplicate",
        "count many total",
        "call execute invoke run start trigger",
    )
    for word in family.split()
}
"""Services name the same few operations in many words: each word stands for the first of its family."""
_COMPOUND: Final = re.compile(rf"({'|'.join(sorted(_SYNONYMS, key=len, reverse=True))})(\w{{3,}})")
"""A name without separators that begins with a verb, such as ``getbalance``."""


def word_weights(tool: Tool) -> Words:
    """Return the weight of each word of a tool, the sum over the fields that have it."""
    words: defaultdict[str, float] = defaultdict(float)
    fields = ((tool.name, _NAME), (tool.title, _TITLE), (tool.description, _DESCRIPTION))
    for text, weight in (*fields, *((name, _ARGUMENT) for name in tool.input_schema.get("properties", ()))):
        for word in words_of(text):
            words[word] += weight
    if parts := _COMPOUND.fullmatch(" ".join(words_of(tool.name))):
        for word in parts.groups():
            words[word] += _NAME
    return dict(words)


def group_of(tool: Tool) -> str:
    """Return the part of a tool's name that tools of one kind share: all before the last separator. A verb is none."""
    found = _GROUP.fullmatch(tool.name)
    shared = found[1] or found[2] if found else ""
    return "" if shared.casefold() in _SYNONYMS else shared


def groups_of(tools: Sequence[Tool]) -> list[tuple[str, int]]:
    """Return the groups of tools and their sizes, the largest first, without one of most tools and those of a few."""
    counts = Counter(filter(None, map(group_of, tools)))
    kept = [(name, n) for name, n in counts.items() if _MIN_GROUP <= n <= len(tools) * _MAX_SHARE]
    return sorted(kept, key=lambda pair: (-pair[1], pair[0]))


@dataclass(frozen=True, eq=False)
class ToolIndex:
    """Hold the words of a catalog's tools, and how many tools each of their ``groups`` has. Made by :meth:`build`."""

    groups: Mapping[str, int]
    _tools: Sequence[Tool]
    _postings: Mapping[str, list[tuple[int, float]]]
    _lengths: Sequence[float]
    _average: float
    _vocabulary: list[str]
    _backwards: list[str]

    @classmethod
    async def build(cls, tools: Iterable[tuple[Tool, Words]]) -> ToolIndex:
        """Build the index of tools and their words. Other tasks of the event loop run in between."""
        collected, lengths = list[Tool](), list[float]()
        postings: defaultdict[str, list[tuple[int, float]]] = defaultdict(list)
        turns = await Turns.begin()
        for number, (tool, words) in enumerate(tools):
            collected.append(tool)
            lengths.append(sum(words.values()))
            for word, weight in words.items():
                postings[word].append((number, weight))
            await turns.give()
        average = sum(lengths) / len(lengths) if lengths else 1.0
        backwards = sorted(word[::-1] for word in postings)
        return cls(dict(groups_of(collected)), collected, postings, lengths, average, sorted(postings), backwards)

    async def rank(self, query: str) -> list[Tool]:
        """Return all tools that match the query, the best first; equal ones in the order of the catalog. Other tasks of
        the event loop run in between: in a hostile listing, each of many words is in each of many tools."""
        turns = Turns()
        scores: defaultdict[int, float] = defaultdict(float)
        query_words = list(dict.fromkeys(words_of(_HYPHENATED.sub(self._joined, query))))
        for word in ([word for word in query_words if word not in _FILLERS] or query_words)[:_MAX_TERMS]:
            for tool, score in (await self._scores(word, turns)).items():
                scores[tool] += score
        ranked = sorted(scores.items(), key=lambda item: (-item[1], item[0]))
        return [self._tools[tool] for tool, _ in ranked]

    def _joined(self, found: re.Match[str]) -> str:
        """Return a word without its hyphen, such as add-on, where the tools write it so."""
        joined = found[0].replace("-", "")
        return joined if words_of(joined)[0] in self._postings else found[0]

    async def _scores(self, word: str, turns: Turns) -> dict[int, float]:
        """Return the highest score of each tool for a word and for those that are alike."""
        best: dict[int, float] = {}
        for other, share in self._similar_words(word):
            postings = self._postings[other]
            rarity = math.log(1 + (len(self._tools) - len(postings) + 0.5) / (len(postings) + 0.5))
            for tool, weight in postings:
                length = 1 - _B + _B * self._lengths[tool] / self._average
                score = share * rarity * weight * (_K1 + 1) / (weight + _K1 * length)
                best[tool] = max(best.get(tool, 0.0), score)
            await turns.give()
        return best

    def _similar_words(self, word: str) -> Iterator[tuple[str, float]]:
        """Yield the words of the index that a query's word may mean, and the share of the score that each gets."""
        family = _SYNONYMS.get(word)
        share = _READING if family == _READ else 1.0
        if word in self._postings:
            yield word, share
        if family is not None:
            alike = (other for other in _SYNONYMS if _SYNONYMS[other] == family and other in self._postings)
            yield from ((other, share * _SYNONYM) for other in alike if other != word)
            return
        if len(word) < _MIN_PREFIX:
            return
        yield from ((other, _PART) for other in _completions(self._vocabulary, word))
        yield from ((other[::-1], _PART) for other in _completions(self._backwards, word[::-1]))
        stems = (word[:end] for end in range(_MIN_STEM, len(word)))
        yield from ((stem, _PART) for stem in stems if stem in self._postings)


def _completions(vocabulary: list[str], word: str) -> Iterator[str]:
    start = bisect_left(vocabulary, word)
    return (other for other in vocabulary[start : start + _MAX_COMPLETIONS] if other.startswith(word) and other != word)
