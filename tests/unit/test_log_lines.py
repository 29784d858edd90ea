"""The buffer between those who log and a descriptor that may take nothing."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

import pytest

from gateway.telemetry.lines import Lines
from tests.waiting import PATIENCE

PIPE_BYTES = 64 * 1024


class Pipe:
    """A pipe whose ends are closed once each."""

    def __init__(self) -> None:
        self.reading, self.writing = os.pipe()
        self._open = {self.reading, self.writing}

    def close(self, *ends: int) -> None:
        for end in self._open & set(ends or self._open):
            self._open.remove(end)
            os.close(end)

    def line(self) -> str:
        """The next line, empty at the end of the stream."""
        line = b""
        while not line.endswith(b"\n"):
            byte = os.read(self.reading, 1)
            if not byte:
                break
            line += byte
        return line.decode().removesuffix("\n")


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    pipe = Pipe()
    yield pipe
    pipe.close()


def lost(lines: int) -> str:
    return f"{lines} lost"


def test_lines_come_out_in_order(pipe: Pipe) -> None:
    log = Lines(pipe.writing, lost)
    for number in range(100):
        log.put(f"line {number}")
    assert [pipe.line() for _ in range(100)] == [f"line {number}" for number in range(100)]
    log.close()


def test_what_the_buffer_could_not_hold_is_counted_and_said_once_it_can_be(pipe: Pipe) -> None:
    log = Lines(pipe.writing, lost, most=1000)
    log.put("x" * 2 * PIPE_BYTES)  # longer than the buffer: lost at once
    first = "first" + "." * 94  # 100 bytes with its end
    for _ in range(2000):
        log.put(first)
    seen = [pipe.line()]
    while not seen[-1].endswith("lost"):
        seen.append(pipe.line())
    log.close()
    pipe.close(pipe.writing)
    while line := pipe.line():
        seen.append(line)
    told = sum(int(line.split()[0]) for line in seen if line.endswith("lost"))
    assert told + seen.count(first) == 2001
    assert told >= 1


def test_a_disk_that_was_full_gets_what_waited_for_it(pipe: Pipe) -> None:
    """A pipe that does not block refuses what it cannot take, as a full disk does."""
    os.set_blocking(pipe.writing, False)
    log = Lines(pipe.writing, lost, retry=0.01)
    texts = [f"{number} " + "x" * 1000 for number in range(3 * PIPE_BYTES // 1000)]
    for text in texts:
        log.put(text)
    assert [pipe.line() for _ in texts] == texts
    log.close()


@pytest.mark.parametrize("trouble", ["nobody reads", "the reader is gone", "the disk is full"])
def test_putting_and_closing_never_wait_for_the_reader(pipe: Pipe, trouble: str) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    if trouble == "the reader is gone":
        pipe.close(pipe.reading)
    log = Lines(full if trouble == "the disk is full" else pipe.writing, lost)

    def use() -> None:
        for _ in range(3000):
            log.put("x" * 100)
        log.close(timeout=0.1)

    user = threading.Thread(target=use, daemon=True)
    user.start()
    user.join(PATIENCE)
    assert not user.is_alive()
    pipe.close(pipe.reading)
    log.close()
    os.close(full)


def test_a_line_that_no_encoding_takes_is_written_all_the_same(pipe: Pipe) -> None:
    log = Lines(pipe.writing, lost)
    log.put("half a pair: \ud800")
    assert pipe.line() == "half a pair: \\ud800"
    log.close()


def test_lines_of_several_processes_are_written_whole() -> None:
    """A pipe takes PIPE_BUF bytes at once or not at all. Packets keep the writes apart."""
    reading, writing = os.pipe2(os.O_DIRECT)
    log = Lines(writing, lost, shares=True)
    lines = [f"{number} {'x' * 1000}" for number in range(20)]
    for line in lines:
        log.put(line)
    log.close(PATIENCE)
    os.close(writing)
    writes = []
    while write := os.read(reading, PIPE_BYTES):
        writes.append(write)
    os.close(reading)
    assert all(write.endswith(b"\n") for write in writes)
    assert b"".join(writes).decode().splitlines() == lines
