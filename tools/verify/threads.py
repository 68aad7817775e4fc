"""Check that forks, many Python threads and Ctrl-C neither hang a translator nor let it grow.

    python tools/verify/threads.py --model data/models/en-de

One process loads a translator with two threads and then
  - forks children that translate with it, half of them while another thread is decoding;
  - lets eight Python threads translate at once, again and again (a burst);
  - interrupts translations at random moments, as Ctrl-C does, and translates again.
Every translation must be the same as the first one of its text. Prints the number of threads and the resident
memory after a tenth of each part and at its end; ends with 1 where one of them grew, where an interrupt was
lost, or where anything took longer than --patience seconds. The kernel lists a thread that has ended for a
moment after join() has returned; threads are counted when such ones are gone.
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[2])  # the checkout

from bytenmt.decoding.translator import Translator

TEXTS = [f"Train {n} leaves at half past {n % 12 + 1}." for n in range(8)]
ALLOWED_GROWTH_MB = 16  # of the resident memory between a tenth and the end


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--forks", type=int, default=200)
    parser.add_argument("--bursts", type=int, default=200)
    parser.add_argument("--interrupts", type=int, default=200)
    parser.add_argument("--patience", type=int, default=60, help="seconds until something counts as hanging")
    options = parser.parse_args()
    check = Check(options.model, options.threads, options.patience)
    with check.decoding_beside():
        check.repeat("forks, decoding beside", options.forks // 2, check.fork)
    check.repeat("forks", options.forks - options.forks // 2, check.fork)
    check.repeat("bursts", options.bursts, check.burst)
    check.repeat("interrupts", options.interrupts, check.interrupt)
    sys.exit(1 if check.faults else 0)


class Check:
    """A translator, what it must answer, and the faults found so far."""

    def __init__(self, model: Path, threads: int, patience: int) -> None:
        self.translator = Translator.load(model, device="cpu", threads=threads)
        self.expected = self.translator.translate(TEXTS)
        self.patience = patience
        self.faults: list[str] = []
        self.random = random.Random(7)

    def repeat(self, name: str, n: int, action: Callable[[], None]) -> None:
        """Call `action` n times; what the first tenth of them leaves is not growth but warming up."""
        before = 0, 0
        for done in range(1, n + 1):
            faulthandler.dump_traceback_later(self.patience, exit=True)
            action()
            if done == max(1, n // 10):
                before = settled_threads(), resident_mb()
        faulthandler.cancel_dump_traceback_later()
        after = settled_threads(before[0]), resident_mb()
        line = f"{name}: {n}, threads {before[0]} -> {after[0]}, memory {before[1]} -> {after[1]} MB"
        print(line, flush=True)
        if n and (after[0] > before[0] or after[1] > before[1] + ALLOWED_GROWTH_MB):
            self.fault(f"{name}: grew")

    def fault(self, line: str) -> None:
        print(line, file=sys.stderr, flush=True)
        self.faults.append(line)

    def translate(self, which: int) -> None:
        if self.translator.translate(TEXTS[which]) != self.expected[which]:
            self.fault(f"text {which} is translated in another way")

    def fork(self) -> None:
        """Translate in a child and here at the same time."""
        child = os.fork()
        if child == 0:
            signal.alarm(self.patience // 2)
            self.faults.clear()
            self.translate(0)
            os._exit(1 if self.faults else 0)
        self.translate(1)
        _, status = os.waitpid(child, 0)
        if status:
            self.fault(f"a forked child ended with {os.waitstatus_to_exitcode(status)}")

    def burst(self) -> None:
        """Translate on eight Python threads at once."""
        threads = [threading.Thread(target=self.translate, args=(which,)) for which in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def interrupt(self) -> None:
        """Interrupt translations after a random time; the next one must be as ever."""
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        try:
            signal.setitimer(signal.ITIMER_REAL, self.random.uniform(0.0005, 0.03))
            end = time.monotonic() + self.patience / 4
            while time.monotonic() < end:
                self.translate(self.random.randrange(8))
            self.fault("an interrupt was lost")
        except KeyboardInterrupt:
            pass
        self.translate(0)

    @contextmanager
    def decoding_beside(self) -> Iterator[None]:
        """Another thread translates all the while."""
        over = threading.Event()

        def work() -> None:
            while not over.is_set():
                self.translate(2)

        thread = threading.Thread(target=work)
        thread.start()
        yield
        over.set()
        thread.join()


def settled_threads(expected: int = 0) -> int:
    """Return the fewest threads counted in two seconds, or sooner if no more than expected are left."""
    until, fewest = time.monotonic() + 2, len(os.listdir("/proc/self/task"))
    while fewest > expected and time.monotonic() < until:
        time.sleep(0.01)
        fewest = min(fewest, len(os.listdir("/proc/self/task")))
    return fewest


def resident_mb() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") >> 20


if __name__ == "__main__":
    main()
