# SPDX-License-Identifier: Apache-2.0
"""Metrics as Prometheus sees them: read by its own library's parser."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.parser import text_string_to_metric_families

from server.tests.world import World

Sample = tuple[str, dict[str, str], float]


class Scrape:
    """One answer of /metrics."""

    def __init__(self, text: str) -> None:
        """Read it; what is not in the format of Prometheus fails."""
        self.text = text
        self.samples = list(_samples(text))

    def value(self, name: str, **labels: str) -> float:
        """Return the one value with these labels among its own; 0 when nothing was counted."""
        found = [value for _, has, value in self.of(name) if labels.items() <= has.items()]
        assert len(found) < 2, found
        return found[0] if found else 0.0

    def of(self, name: str) -> list[Sample]:
        """Return everything of a name."""
        return [sample for sample in self.samples if sample[0] == name]

    def labels(self, name: str, label: str) -> set[str]:
        """Return the values that a label has."""
        return {has[label] for _, has, _ in self.of(name)}


def _samples(text: str) -> Iterator[Sample]:
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            yield sample.name, dict(sample.labels), sample.value


async def scrape(world: World) -> Scrape:
    """Ask a server for its metrics."""
    answer = await world.client.get("/metrics")
    assert answer.status_code == 200, answer.text
    return Scrape(answer.text)
