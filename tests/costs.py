# SPDX-License-Identifier: Apache-2.0
"""What each suite costs: how long it took, and how long processors worked for it.

The second is the one to compare: other programs on the machine hardly change it. It is that of the
tests and of the processes that were waited for; sandboxes of the embedded runtime are not among
those.
"""

from __future__ import annotations

import resource
from collections import defaultdict
from collections.abc import Generator
from dataclasses import dataclass

import pytest

SHOWN_FILES = 12
PROPERTY = "processor seconds"


def processor_seconds() -> float:
    """Return what this process and all those it waited for have used."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


@dataclass
class Cost:
    """What one suite or file has cost so far."""

    tests: int = 0
    seconds: float = 0.0
    processor_seconds: float = 0.0

    def add(self, report: pytest.TestReport) -> None:
        """Add one phase of a test."""
        self.tests += report.when == "teardown"
        self.seconds += report.duration
        for name, value in report.user_properties:
            if name == PROPERTY and isinstance(value, float):
                self.processor_seconds += value


class Costs:
    """Measures where a test runs, and adds up where reports arrive: workers send them on."""

    def __init__(self) -> None:
        self._measured = 0.0
        self._of_suites: defaultdict[str, Cost] = defaultdict(Cost)
        self._of_files: defaultdict[str, Cost] = defaultdict(Cost)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self) -> Generator[None, object, object]:
        """Leave out what collecting cost."""
        self._measured = processor_seconds()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self,
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Note what was used since the last report."""
        report = yield
        before, self._measured = self._measured, processor_seconds()
        used = (PROPERTY, self._measured - before)
        report.user_properties = [*report.user_properties, used]
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add a report up."""
        file = report.nodeid.partition("::")[0]
        self._of_files[file].add(report)
        self._of_suites[file.rpartition("/")[0]].add(report)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Show the suites and the most expensive files."""
        if len(self._of_files) < SHOWN_FILES:
            return
        terminalreporter.section("costs: seconds, seconds of processors, tests")
        for costs, shown in ((self._of_suites, None), (self._of_files, SHOWN_FILES)):
            by_cost = sorted(costs.items(), key=lambda item: -item[1].processor_seconds)
            for name, cost in by_cost[:shown]:
                numbers = f"{cost.seconds:7.1f} {cost.processor_seconds:7.1f} {cost.tests:5}"
                terminalreporter.write_line(f"{numbers}  {name}")
            terminalreporter.write_line("")


def pytest_configure(config: pytest.Config) -> None:
    """Measure this run."""
    config.pluginmanager.register(Costs(), "costs")
