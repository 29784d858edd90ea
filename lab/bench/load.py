"""One lane of the race: load from wrk, and figures that are believed only where the answers were right."""

from __future__ import annotations

import http.client
import json
import subprocess
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lab.bench.machine import Process, Unusable, program

if TYPE_CHECKING:
    from pathlib import Path

    from lab.bench.work import Workload

_MARK = "RESULT "
_SCRIPT = """
wrk.method = "POST"
wrk.body = [==[%(body)s]==]
%(headers)s
%(variants)s
done = function(summary, latency)
  local bad = summary.errors
  local lost = bad.connect + bad.read + bad.write + bad.timeout
  io.write(string.format(
    '\\n%(mark)s{"requests":%%d,"microseconds":%%d,"bytes":%%d,"bad":%%d,"lost":%%d,"p50":%%d,"p99":%%d,"p999":%%d}\\n',
    summary.requests, summary.duration, summary.bytes, bad.status, lost,
    latency:percentile(50), latency:percentile(99), latency:percentile(99.9)))
end
"""
_VARIANTS = """
local requests, count, turn = {}, 0, 0
init = function()
  for line in io.lines("%s") do
    local path, token = line:match("^(%%S+) (%%S+)$")
    wrk.headers["Authorization"] = "Bearer " .. token
    count = count + 1
    requests[count] = wrk.format(nil, path)
  end
end
request = function()
  turn = turn %% count + 1
  return requests[turn]
end
"""


@dataclass(frozen=True)
class Figures:
    """What one stretch of load came to.

    ``rate`` is requests per second, ``cpu`` microseconds per request, the latencies are microseconds.
    ``waited`` is the share of the time in which the server was ready to run and something else had its
    core: where it is large, the machine was busy with something else and the latencies and rates say
    little.
    """

    rate: float
    cpu: float
    waited: float
    p50: int
    p99: int
    p999: int


@dataclass(frozen=True)
class Lane:
    """A server and the request it gets."""

    name: str
    process: Process
    port: int
    workload: Workload

    def request_bytes(self) -> bytes:
        """Return the request as it is sent."""
        path, headers = self._first()
        body = self.workload.body.encode()
        own = {"Host": f"127.0.0.1:{self.port}", "Content-Length": str(len(body)), **headers}
        lines = "".join(f"{name}: {value}\r\n" for name, value in own.items())
        return f"POST {path} HTTP/1.1\r\n{lines}\r\n".encode() + body

    def _first(self) -> tuple[str, dict[str, str]]:
        """Return path and headers of the first variant."""
        work = self.workload
        mount, token = work.variants[0] if work.variants else ("", "")
        own = {"Authorization": f"Bearer {token}"} if token else {}
        return mount + work.path, {**work.headers, **own}

    def ask(self) -> tuple[int, bytes, int]:
        """Send the request once: the status, the body, and how many bytes the whole answer had."""
        path, headers = self._first()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request("POST", path, self.workload.body, headers)
            answer = connection.getresponse()
            body = answer.read()
            head = len(f"HTTP/1.1 {answer.status} {answer.reason}\r\n\r\n")
            head += sum(len(f"{name}: {value}\r\n") for name, value in answer.getheaders())
            return answer.status, body, head + len(body)
        finally:
            connection.close()

    def answers(self) -> bool:
        """Whether the server is up and right."""
        try:
            status, body, _ = self.ask()
            return status == 200 and self.workload.check(_message(body))
        except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
            return False

    def run(self, seconds: float, connections: int, core: int, folder: Path) -> Figures:
        """One verified request, then load for that long."""
        status, body, size = self.ask()
        if status != 200 or not self.answers():
            raise Unusable(f"{self.name}: a wrong answer, status {status}:\n{body[:500].decode(errors='replace')}")
        script = self._script(folder)
        before = self.process.scheduled()
        told = _wrk(script, f"http://127.0.0.1:{self.port}{self.workload.path}", seconds, connections, core)
        used = self.process.scheduled() - before
        requests = told["requests"]
        if told["bad"] or told["lost"] or not requests:
            raise Unusable(f"{self.name}: {requests} answers, {told['bad']} not 2xx, {told['lost']} lost")
        # a fault within a 200 has another length than the answer that was verified; at the end, each connection may
        # have read a part of one more
        beyond = told["bytes"] - requests * size
        if not -0.05 * requests * size <= beyond <= 0.05 * requests * size + connections * size:
            raise Unusable(f"{self.name}: {told['bytes'] / requests:.0f} bytes per answer instead of {size}")
        elapsed = told["microseconds"] / 1e6
        cpu, waited = used.ran / 1000 / requests, used.waited / 1e9 / elapsed
        return Figures(requests / elapsed, cpu, waited, told["p50"], told["p99"], told["p999"])

    def _script(self, folder: Path) -> Path:
        headers = "\n".join(f'wrk.headers["{n}"] = "{v}"' for n, v in self.workload.headers.items())
        variants = ""
        if self.workload.variants:
            lines = folder / f"{self.port}.txt"
            lines.write_text(
                "".join(f"{mount}{self.workload.path} {token}\n" for mount, token in self.workload.variants)
            )
            variants = _VARIANTS % lines
        path = folder / f"{self.port}.lua"
        script = {"body": self.workload.body, "headers": headers, "variants": variants, "mark": _MARK}
        path.write_text(_SCRIPT % script)
        return path


def _message(body: bytes) -> Any:
    """The JSON of an answer, which may be the one event of a stream."""
    text = body.decode()
    events = [line.removeprefix("data:") for line in text.splitlines() if line.startswith("data:")]
    return json.loads(events[-1] if events else text)


def _wrk(script: Path, url: str, seconds: float, connections: int, core: int) -> dict[str, int]:
    # wrk counts in whole seconds only
    command = [program("taskset"), "-c", str(core), program("wrk"), "-t1", f"-c{connections}"]
    command += [f"-d{max(1, round(seconds))}s", "--timeout", "20s", "-s", str(script), url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 30, check=False)
    for line in done.stdout.splitlines():
        if line.startswith(_MARK):
            figures: dict[str, int] = json.loads(line.removeprefix(_MARK))
            return figures
    raise Unusable(f"wrk said nothing to the point:\n{done.stdout}{done.stderr}")


def until_first(lane: Lane) -> float:
    """Seconds from the start of the lane's process to its first right answer."""
    started = time.perf_counter()
    with lane.process:
        lane.process.wait_until(lane.answers, pause=0.005)
        return time.perf_counter() - started
