# SPDX-License-Identifier: Apache-2.0
"""A machine like the users': python -m tests.vm test|shell|image."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from pathlib import Path

from tests.vm.image import build_image, make_clone_disk
from tests.vm.machine import Machine, qemu, running, start
from tests.vm.plan import PARTS, Part, Result, last_lines, run_part
from tests.vm.progress import VMError, step
from tests.vm.recipe import CLONE, ROOT, SUITES, Suite

DIRECTORY = ROOT / "build/vm"


def main() -> int:
    """Do what the command line says; a fault is told in one line, and the status is 1."""
    options = _parser().parse_args()
    # However it is ended, the machine is switched off first.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return int(options.verb(options) or 0)
    except VMError as error:
        print(f"vm: {error}", file=sys.stderr)
    except KeyboardInterrupt:
        print("vm: stopped by Ctrl-C", file=sys.stderr)
    return 1


def _test(options: argparse.Namespace) -> int:
    suite: Suite = SUITES[options.suite]
    parts = [part for part in PARTS if _is_wanted(part, options)]
    if not parts:
        raise VMError(f"there is no such part; there are: {_names()}")
    began = time.monotonic()
    place = DIRECTORY / suite.name
    place.mkdir(parents=True, exist_ok=True)
    print(f"Debian {suite.number}, {suite.name}, in a virtual machine; logs are in {place}")
    image = build_image(suite)
    with step("disk with this clone"):
        make_clone_disk(suite, place / "clone.ext4")
    try:
        with running(image, place / "clone.ext4", place / "console.log") as machine:
            results = _run_parts(parts, machine, place, began + options.minutes * 60)
    finally:
        (place / "clone.ext4").unlink()
    return _report(results, parts, time.monotonic() - began)


def _is_wanted(part: Part, options: argparse.Namespace) -> bool:
    if options.only:
        return part.name in list(options.only)
    return part.is_short or not bool(options.short)


def _run_parts(parts: list[Part], machine: Machine, place: Path, deadline: float) -> list[Result]:
    """Run one part after the other; one that hangs the machine is the last."""
    results: list[Result] = []
    try:
        with step("boot"):
            kernel = machine.wait_until_booted()
        print(f"  Linux {kernel}", flush=True)
        for part in parts:
            if time.monotonic() > deadline:
                raise VMError("the time for the whole is up")
            log = place / f"{part.name.replace(' ', '-')}.log"
            began = time.monotonic()
            result = run_part(part, machine, log)
            results.append(result)
            took = time.monotonic() - began
            print(f"  {part.name:<44} {took:7.1f} s   {result}", flush=True)
            if not result.is_good:
                print(f"--- the end of {log}\n{last_lines(log)}\n---", flush=True)
    except VMError as error:
        print(f"vm: {error}\n--- the end of its console\n{machine.last_words()}\n---", flush=True)
    return results


def _report(results: list[Result], parts: list[Part], seconds: float) -> int:
    passed = sum(result.counts.get("passed", 0) for result in results)
    failed = sum(
        max(1, result.counts.get("failed", 0) + result.counts.get("error", 0))
        for result in results
        if not result.is_good
    ) + (len(parts) - len(results))
    print(f"vm: {passed} passed, {failed} failed ({seconds / 60:.1f} minutes)")
    return 1 if failed else 0


def _shell(options: argparse.Namespace) -> int:
    suite: Suite = SUITES[options.suite]
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    image, disk = build_image(suite), DIRECTORY / f"clone-{suite.name}.ext4"
    make_clone_disk(suite, disk)
    print(f"Log in as root comes by itself; this clone is in {CLONE}. Ctrl-A X ends the machine.")
    try:
        return start(qemu(image, disk, ["mon:stdio"])).wait()
    finally:
        disk.unlink()


def _image(options: argparse.Namespace) -> None:
    print(build_image(SUITES[options.suite]).directory)


def _names() -> str:
    return ", ".join(part.name for part in PARTS)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.vm", description=__doc__)
    parser.add_argument(
        "--suite", choices=SUITES, default="bookworm", help="Debian's release (default: bookworm)"
    )
    verbs = parser.add_subparsers(required=True, metavar="VERB")
    tested = verbs.add_parser("test", help="boot a machine and run everything in it")
    tested.add_argument("--short", action="store_true", help="only what takes minutes")
    tested.add_argument(
        "--only", metavar="PART", action="append", help=f"this one; also several: {_names()}"
    )
    tested.add_argument(
        "--minutes", type=float, default=240, help="how long the whole may take (default: 240)"
    )
    tested.set_defaults(verb=_test)
    verbs.add_parser("shell", help="a machine with its console here").set_defaults(verb=_shell)
    verbs.add_parser("image", help="make the image, or find it").set_defaults(verb=_image)
    return parser


if __name__ == "__main__":
    sys.exit(main())
