"""The instances of one project, as a supervisor keeps them running, and what happens to them."""

import asyncio
import signal
from collections.abc import Callable
from contextlib import ExitStack

from tests.agents.kafka import ProjectOnBroker
from tests.agents.test_shutdown import stopped
from tests.instances import RunningInstance, instance
from tests.soak.power import Power

MOST_INSTANCES = 3
STOP_SECONDS = 30.0
START_SECONDS = 120.0  # of all at once, beside other programs
RESTART_SECONDS = 0.5


class Fleet:
    """At least one instance at all times; `failures` has what no instance should have done."""

    def __init__(
        self,
        name: str,
        here: ProjectOnBroker,
        env: dict[str, str],
        power: Power,
        say: Callable[[str], None],
        stack: ExitStack,
    ) -> None:
        self.name = name
        self.here = here
        self.env = env
        self.power = power
        self.say = say
        self.stack = stack
        self.running: dict[int, RunningInstance] = {}
        self.paused: set[int] = set()
        self.started = 0
        self.failures: list[str] = []

    def join(self) -> None:
        """Start another instance, unless there are enough."""
        if len(self.running) >= MOST_INSTANCES:
            return
        self.started += 1
        new = instance(self.here.settings.broker, self.here.settings.prefix, **self.env)
        self.running[self.started] = self.stack.enter_context(new)
        self.say(f"{self.name}: instance {self.started} joins")

    async def wait_ready(self) -> None:
        """Wait until all that have joined are ready."""
        for running in self.running.values():
            await asyncio.to_thread(running.wait_ready, START_SECONDS)

    def kill(self, pick: float) -> None:
        """SIGKILL to one of them."""
        number = self._chosen(pick)
        if number is not None:
            self.say(f"{self.name}: SIGKILL to instance {number}")
            self.running.pop(number).kill()

    async def pause(self, pick: float, seconds: float) -> None:
        """SIGSTOP to one of them, and SIGCONT later."""
        number = self._chosen(pick)
        if number is not None:
            self.say(f"{self.name}: SIGSTOP to instance {number}, for {seconds:.1f} s")
            self.paused.add(number)
            with stopped(self.running[number]):
                await asyncio.sleep(seconds)
            self.paused.remove(number)

    async def terminate(self, pick: float) -> None:
        """SIGTERM to one of them, which ends in good order unless the broker is away.

        One that was started just now may not have got as far as to heed it: it has said nothing.
        """
        number = self._chosen(pick)
        if number is None:
            return
        self.say(f"{self.name}: SIGTERM to instance {number}")
        ended, before = self.running.pop(number), self.power.times_lost
        was_on = self.power.is_on
        status = await asyncio.to_thread(ended.terminate, STOP_SECONDS)
        if status == -signal.SIGTERM and not ended.log():
            return
        if status and was_on and self.power.times_lost == before:
            self._failed(number, ended, f"had SIGTERM and ended with {status}")

    async def look_after(self) -> None:
        """Start an instance where none is left, without end; what ends by itself is a failure."""
        while True:
            for number, running in list(self.running.items()):
                status = running.process.poll()
                if status is not None:
                    del self.running[number]
                    self._ended(number, running, status)
            if not self.running and self.power.is_on:
                self.join()
            await asyncio.sleep(RESTART_SECONDS)

    async def stop(self) -> None:
        """SIGTERM to all."""
        while self.running:
            await self.terminate(0.0)

    def _ended(self, number: int, running: RunningInstance, status: int) -> None:
        """One that loses the broker before it is ready says so and ends; else it is a failure."""
        if status == 1 and self.power.times_lost:
            self.say(f"{self.name}: instance {number} found no broker")
        else:
            self._failed(number, running, f"ended by itself with {status}")

    def _chosen(self, pick: float) -> int | None:
        numbers = sorted(self.running.keys() - self.paused)
        return numbers[int(pick * len(numbers))] if numbers else None

    def _failed(self, number: int, ended: RunningInstance, what: str) -> None:
        self.failures.append(f"{self.name}: instance {number} {what}:\n{ended.log()[-3000:]}")
        self.say(self.failures[-1])
