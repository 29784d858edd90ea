"""Whose token an issuer is asked about next: shares of networks, turns, and what becomes of those who wait in vain."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextvars import ContextVar
from random import Random

import pytest

from gateway.auth.asking import MAX_WAITING, PATIENCE, IssuerTurns
from gateway.auth.authenticator import Authenticator, PresentedToken
from gateway.auth.compact import InvalidToken, Undecidable
from gateway.auth.verifier import VerifiedToken
from gateway.errors import Unauthorized
from tests.clock import Clock, by_hand

WHO: ContextVar[str] = ContextVar("WHO", default="nobody")


class Stand:
    """Networks before an issuer. ``asked`` has the questions in their order, ``under_way`` those without an answer."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.turns = IssuerTurns("https://as.example.com")
        self.asked: list[tuple[str, str]] = []
        self.under_way: dict[str, asyncio.Event] = {}
        self.begun: list[float] = []

    def show(self, network: str, token: str) -> asyncio.Task[str]:
        """Show a token, and return the task of its answer."""

        def begin() -> asyncio.Task[str]:
            self.begun.append(self.clock.now)
            return asyncio.create_task(question())

        async def question() -> str:
            self.asked.append((WHO.get(), token))
            self.under_way[token] = asyncio.Event()
            await self.under_way[token].wait()
            return token

        async def shown() -> str:
            WHO.set(network)
            return await (await self.turns.take(network, token, begin))

        return asyncio.create_task(shown())

    async def come(self, network: str, count: int, name: str = "t") -> list[asyncio.Task[str]]:
        shown = [self.show(network, f"{network} {name}{number}") for number in range(count)]
        await self.clock.settles()
        return shown

    async def answer(self, *tokens: str) -> None:
        for token in tokens or [*self.under_way]:
            self.under_way.pop(token).set()
        await self.clock.settles()

    async def leave(self, *tasks: asyncio.Task[str]) -> None:
        """Let all leave. Nothing may be left of them."""
        for task in tasks:
            task.cancel()
        await self.answer()
        await self.clock.moves_on(PATIENCE + 1)
        await self.answer()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert self.turns._has_room()
        assert repr(self.turns) == "<IssuerTurns 0 under way, 0 within a second, 0 wait>", self.turns
        assert (self.turns._under_way, self.turns._recent, self.turns._lines.lengths) == (Counter(),) * 3

    @property
    def by_network(self) -> Counter[str]:
        return Counter(network for network, _ in self.asked)


@by_hand
async def test_a_network_alone_has_all_and_the_next_turn_is_that_of_a_newcomer(clock: Clock) -> None:
    it = Stand(clock)
    many = await it.come("a", 60)
    assert it.by_network == {"a": 16}
    new = await it.come("b", 1)
    await it.answer("a t0")
    assert it.asked[16:] == [("b", "b t0")]
    await it.leave(*many, *new)


@by_hand
async def test_while_others_wait_a_network_has_half_of_those_at_once(clock: Clock) -> None:
    it = Stand(clock)
    many = await it.come("a", 60) + await it.come("b", 20)
    for number in range(16):
        await it.answer(f"a t{number}")
    assert it.by_network == {"a": 24, "b": 8}
    assert len(it.under_way) == 16
    await it.leave(*many)


@by_hand
async def test_fifty_questions_begin_in_any_second_of_one_network_half_while_others_wait(clock: Clock) -> None:
    it = Stand(clock)
    tasks = []
    for start in range(5):
        tasks += await it.come("a", 10, f"{start}.")
        await it.answer()
    tasks += await it.come("a", 60, "late") + await it.come("b", 60) + await it.come("c", 1)
    await clock.moves_on(0.95)
    assert it.by_network == {"a": 50}
    await clock.moves_on(0.1)
    for _ in range(10):
        await it.answer()
    assert len(it.asked) == 100
    assert [network for network, _ in it.asked[50:55]] == ["a", "b", "c", "a", "b"]
    assert (it.by_network["b"], it.by_network["c"]) == (24, 1)
    await it.leave(*tasks)


@by_hand
async def test_who_finds_no_turn_in_two_seconds_is_told_to_come_again_and_the_log_who_waits(clock: Clock) -> None:
    it = Stand(clock)
    many = await it.come("a", 16)
    new = await it.come("b", 1)
    await clock.moves_on(PATIENCE - 0.1)
    assert not new[0].done()
    await clock.moves_on(0.2)
    with pytest.raises(Undecidable, match=r"as\.example\.com: too many .* of b$") as caught:
        await new[0]
    assert caught.value.retry_after == 1
    await it.leave(*many)


@by_hand
async def test_of_one_network_64_wait_and_of_all_256_where_the_largest_loses_its_newest(clock: Clock) -> None:
    it = Stand(clock)
    many = await it.come("a", 16 + 64 + 3)
    refused = [task for task in many if task.done()]
    assert refused == many[-3:]
    assert "are of a" in str(refused[0].exception())
    others = [await it.come(f"n{number}", 48) for number in range(4)]
    new = (await it.come("new", 1))[0]
    assert it.turns._lines.total == MAX_WAITING
    assert [task for task in many if task.done()] == many[-4:]
    own = (await it.come("a", 1, "more"))[0]
    assert "too many" in str(own.exception())
    await it.answer("a t0")
    assert it.asked[-1][0] == "n0"
    await it.leave(*many, *(task for those in others for task in those), new)


@by_hand
async def test_where_each_network_has_one_that_waits_a_newcomer_puts_out_nobody(clock: Clock) -> None:
    it = Stand(clock)
    many = await it.come("a", 16)
    others = [(await it.come(f"n{number}", 1))[0] for number in range(MAX_WAITING)]
    new = (await it.come("new", 1))[0]
    assert new.done()
    assert not any(task.done() for task in others)
    await it.leave(*many, *others)


@by_hand
async def test_who_gives_up_costs_no_question_unless_another_waits_for_the_same_token(clock: Clock) -> None:
    it = Stand(clock)
    many = await it.come("a", 16)
    gone, first, second = (it.show("b", token) for token in ("gone", "shared", "shared"))
    await clock.settles()
    for task in (gone, first):
        task.cancel()
    await clock.settles()
    await it.answer("a t0", "a t1")
    assert it.asked[16:] == [("b", "shared")]
    await it.answer("shared")
    assert await second == "shared"
    await it.leave(*many)


@by_hand
async def test_where_the_others_leave_a_network_has_all_again(clock: Clock) -> None:
    it = Stand(clock)
    many = await it.come("a", 40)
    other = await it.come("b", 20)
    await it.answer(*(f"a t{number}" for number in range(14)))
    assert it.by_network == {"a": 22, "b": 8}
    for task in other:
        task.cancel()
    await clock.settles()
    await it.answer(*(f"b t{number}" for number in range(8)))
    assert it.by_network == {"a": 30, "b": 8}
    await it.leave(*many)


@by_hand
async def test_a_token_that_two_networks_show_is_asked_about_once_in_the_first_turn_of_either(clock: Clock) -> None:
    it = Stand(clock)
    many = await it.come("a", 30)
    shown = [it.show(network, "shared") for network in "abbc"]
    await clock.settles()
    await it.answer("a t0")
    assert it.asked[16:] == [("b", "shared")]
    await it.answer("shared", "a t1")
    assert await asyncio.gather(*shown) == ["shared"] * 4
    assert it.asked[17] == ("a", "a t16")
    await it.leave(*many)


@by_hand
async def test_whatever_comes_and_goes_the_bounds_hold_and_nothing_is_left(clock: Clock) -> None:
    it, chance = Stand(clock), Random(49)
    tasks: list[asyncio.Task[str]] = []
    for step in range(1500):
        network, choice = f"n{chance.randrange(6) ** 2}", chance.random()
        if choice < 0.6:
            tasks.append(it.show(network, f"token {chance.randrange(step + 1)}"))
        elif choice < 0.7 and tasks:
            chance.choice(tasks).cancel()
        elif choice < 0.95 and it.under_way:
            await it.answer(chance.choice([*it.under_way]))
        else:
            await clock.moves_on(0.05)
        await asyncio.sleep(0)
        assert len(it.under_way) <= 16
        assert sum(clock.now - at < 1 for at in it.begun[-51:]) <= 50
        assert it.turns._lines.total <= MAX_WAITING
    await it.leave(*tasks)


@by_hand
async def test_all_addresses_of_a_48_are_one_network(clock: Clock) -> None:
    class Silent:
        """Knows nothing of a token for long."""

        async def verify_token(self, raw: str) -> VerifiedToken:
            await asyncio.sleep(1)
            raise InvalidToken("not known")

    turns = IssuerTurns("https://as.example.com")
    authenticator = Authenticator(Silent(), turns_of=lambda _: turns)
    addresses = ("2001:db8::1", "2001:db8:0:ffff::2", "2001:db8:1::1", "::ffff:10.0.0.9", "10.0.0.9")
    shown = [PresentedToken([f"Bearer t{at}"], [], "POST", "/mcp", False, one) for at, one in enumerate(addresses)]
    tasks = [asyncio.create_task(authenticator.authenticate(one)) for one in shown]
    await clock.settles()
    assert turns._under_way == {"2001:db8::/48": 2, "2001:db8:1::/48": 1, "10.0.0.9": 2}
    await clock.moves_on(1.1)
    assert {type(one) for one in await asyncio.gather(*tasks, return_exceptions=True)} == {Unauthorized}
