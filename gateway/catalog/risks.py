"""Judge by the name of a method whether it reveals a secret, moves money, or signs.

Names are split into words at punctuation and where the case changes. Bitcoin and its forks write words together
(``dumpprivkeys``), so a word that consists of known words is split into those. The words beside it decide what a word
means: ``seeders`` are not a seed, ``signin`` is not a signature, ``getpayment`` moves nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import zip_longest
from typing import Final

_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
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
    """Tell whether a method returns what opens a wallet or an account, rather than taking it."""
    words = _words(method)
    if _takes(words):
        return False
    private = {"priv", "private", "secret", "master", "spend", "xprv"} & set(words)
    if (private and _KEYS & set(words)) or {"master", "private"} <= set(words):
        return True
    if {"privkey", "privkeys", "mnemonic", "mnemonics"} & set(words):
        return True
    if "phrase" in words and {"seed", "recovery"} & set(words):
        return True
    if {"dump", "export"} & set(words) and ({"wallet", "hd"} | _KEYS) & set(words):
        return True
    if words == ("query", "key"):  # of Monero's wallet
        return True
    last = next((word for word in reversed(words) if word not in _ENDINGS and not word.isdigit()), "")
    return last in _SECRETS and bool(_REVEALS & set(words))


def _takes(words: Sequence[str]) -> bool:
    """Tell whether a method takes a secret from its caller."""
    first = next((word for word in words if word in _REVEALS or word in _TAKES_FIRST), "")
    return bool(_TAKES & set(words)) or first in _TAKES_FIRST


@lru_cache(20_000)
def moves_value(method: str) -> bool:
    """Tell whether a method moves money or signs, which cannot be undone."""
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
    return tuple(part for word in _WORD.findall(method) for part in _parts(word.casefold()))


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
