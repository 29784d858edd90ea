"""Rank tools by a few words: BM25 over names, titles, descriptions and names of arguments.

Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009), §3.3, with a weight for each
field. Libraries for it depend on NumPy, and a catalog needs no more than this file.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gateway.model import Tool
from gateway.turns import Turns

_K1: Final = 1.2
_B: Final = 0.75
_NAME, _TITLE, _ARGUMENT, _DESCRIPTION = 4.0, 2.0, 1.5, 1.0
_PREFIX: Final = 0.4
"""Share of the score for a word that only begins with the query's word."""
# Bounds of the work for one query, which any caller chooses.
_MIN_PREFIX: Final = 3
_MAX_COMPLETIONS: Final = 20
_MAX_TERMS: Final = 32
# Scripts without spaces between words: a character is a word.
_IDEOGRAPHS: Final = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_WORD: Final = re.compile(rf"[{_IDEOGRAPHS}]|[^\W_{_IDEOGRAPHS}]+")
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")

Words = Mapping[str, float]


def words_of(text: str) -> list[str]:
    """Return the words of a text or a name, in lower case and singular: ``getBlockHash``, ``get_block-hash`` and
    ``Get block hashes`` have the same."""
    return [_singular(word) for word in _WORD.findall(_HUMP.sub(" ", text).casefold())]


def _singular(word: str) -> str:
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    if len(word) > 4 and word.endswith(("shes", "ches", "xes", "sses")):
        return word[:-2]
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


_FILLERS: Final = frozenset(
    words_of("a an and are at by for from how i in is it my of on or that the this to what with")
)
"""Words of a query that do not describe a tool."""


def word_weights(tool: Tool) -> Words:
    """Return the weight of each word of a tool, the sum over the fields that have it."""
    words: defaultdict[str, float] = defaultdict(float)
    fields = ((tool.name, _NAME), (tool.title, _TITLE), (tool.description, _DESCRIPTION))
    for text, weight in (*fields, *((name, _ARGUMENT) for name in tool.input_schema.get("properties", ()))):
        for word in words_of(text):
            words[word] += weight
    return dict(words)


@dataclass(frozen=True)
class Match:
    """Hold a tool and its score; a higher one is a better match."""

    tool: Tool
    score: float


class ToolIndex:
    """Hold the words of a catalog's tools. Made by :meth:`build`."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        self._tools = tools
        self._postings: defaultdict[str, list[tuple[int, float]]] = defaultdict(list)
        self._lengths: list[float] = []
        self._average = 1.0
        self._vocabulary: list[str] = []

    @classmethod
    async def build(cls, tools: Iterable[tuple[Tool, Words]]) -> ToolIndex:
        """Build the index of tools and their words. Other tasks of the event loop run in between."""
        index = cls(collected := [])
        turns = Turns()
        for number, (tool, words) in enumerate(tools):
            collected.append(tool)
            index._lengths.append(sum(words.values()))
            for word, weight in words.items():
                index._postings[word].append((number, weight))
            await turns.give()
        index._vocabulary = sorted(index._postings)
        index._average = sum(index._lengths) / len(index._lengths) if index._lengths else 1.0
        return index

    def rank(self, query: str) -> list[Match]:
        """Return all tools that match the query, the best first; equal ones in the order of the catalog."""
        scores: defaultdict[int, float] = defaultdict(float)
        query_words = list(dict.fromkeys(words_of(query)))
        for word in ([word for word in query_words if word not in _FILLERS] or query_words)[:_MAX_TERMS]:
            for tool, score in self._scores(word).items():
                scores[tool] += score
        ranked = sorted(scores.items(), key=lambda item: (-item[1], item[0]))
        return [Match(self._tools[tool], score) for tool, score in ranked]

    def _scores(self, word: str) -> dict[int, float]:
        """Return the highest score of each tool for a word and for the words that begin with it."""
        best: dict[int, float] = {}
        for other, share in self._similar_words(word):
            postings = self._postings[other]
            rarity = math.log(1 + (len(self._tools) - len(postings) + 0.5) / (len(postings) + 0.5))
            for tool, weight in postings:
                length = 1 - _B + _B * self._lengths[tool] / self._average
                score = share * rarity * weight * (_K1 + 1) / (weight + _K1 * length)
                best[tool] = max(best.get(tool, 0.0), score)
        return best

    def _similar_words(self, word: str) -> Iterable[tuple[str, float]]:
        if word in self._postings:
            yield word, 1.0
        if len(word) < _MIN_PREFIX:
            return
        start = bisect_left(self._vocabulary, word)
        for other in self._vocabulary[start : start + _MAX_COMPLETIONS]:
            if other.startswith(word) and other != word:
                yield other, _PREFIX
