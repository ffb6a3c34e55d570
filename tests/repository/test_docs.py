# SPDX-License-Identifier: Apache-2.0
"""The documentation says what is true: flags, error codes, routes, links, commands."""

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from benchmarks.run import TARGETS
from tests.harness.execd import BINARY

ROOT = Path(__file__).resolve().parents[2]
EXECD = (ROOT / "docs" / "execd.md").read_text()
INGRESS = (ROOT / "docs" / "ingress.md").read_text()
PAGES = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")])


@pytest.mark.parametrize(
    ("name", "page"), [("execd", EXECD), ("ingress", INGRESS)], ids=["execd", "ingress"]
)
def test_the_help_in_the_docs_is_what_the_program_prints(name: str, page: str) -> None:
    shown = page.split("compared by a test -->\n```\n")[1].split("```\n<!-- /help -->")[0]
    program = str(BINARY.with_name(name))
    printed = subprocess.run([program, "--help"], capture_output=True, text=True, check=True)
    expected = (printed.stdout + printed.stderr).expandtabs(4).replace("      \t", "        ")
    assert squeezed(shown) == squeezed(expected)


def squeezed(text: str) -> list[str]:
    """Compare words, not the width of tabs."""
    return [" ".join(line.split()) for line in text.splitlines()]


def test_every_error_code_is_explained() -> None:
    source = (ROOT / "dataplane" / "execd" / "errors.go").read_text()
    codes = re.findall(r'^\tCode\w+\s*= "([A-Z_]+)"$', source, re.MULTILINE)
    assert len(codes) > 10
    assert [code for code in codes if f"| `{code}` |" not in EXECD] == []


def test_every_error_code_of_ingress_is_explained() -> None:
    source = (ROOT / "dataplane" / "ingress" / "errors.go").read_text()
    codes = re.findall(r'^\tcode\w+\s*= "([A-Z_]+)"$', source, re.MULTILINE)
    explained = set(re.findall(r"`([A-Z_]+)`", INGRESS.split("## Errors")[1]))
    assert len(codes) > 10
    assert set(codes) - explained == set()


def test_every_code_of_terminal_frames_is_named() -> None:
    codes: set[str] = set()
    for name in ("attach.go", "pty.go"):
        source = (ROOT / "dataplane" / "execd" / name).read_text()
        codes.update(re.findall(r'\bcode\w+\s*= "([A-Z_]+)"', source))
    assert codes
    assert [code for code in codes if f"`{code}`" not in EXECD] == []


def test_every_route_of_the_specification_is_mentioned() -> None:
    paths = yaml.safe_load((ROOT / "specs" / "execd.yaml").read_text())["paths"]
    families = ("/v1/filesystem", "/v1/isolated", "/code", "/proxy")
    missing = []
    for path in paths:
        family = next((f for f in families if path.startswith(f)), None)
        if (family or path) not in EXECD:
            missing.append(path)
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text())
    local = [link for link in links if "://" not in link]
    assert [link for link in local if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_into_a_page_finds_its_heading(page: Path) -> None:
    missing = []
    for file, anchor in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", page.read_text()):
        target = page.parent / file if file else page
        headings = re.findall(r"^#+ (.*)$", target.read_text(), re.MULTILINE)
        if anchor not in {anchor_of(heading) for heading in headings}:
            missing.append(f"{file}#{anchor}")
    assert missing == []


def anchor_of(heading: str) -> str:
    """Name a heading as the pages of a forge do."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def test_every_page_of_the_docs_is_linked_from_the_readme() -> None:
    readme = (ROOT / "README.md").read_text()
    pages = [page for page in PAGES if page.name != "README.md" and page.parent.name != "decisions"]
    assert [page for page in pages if f"({page.relative_to(ROOT)})" not in readme] == []


def test_every_decision_is_in_their_list() -> None:
    index = (ROOT / "docs" / "decisions" / "README.md").read_text()
    decisions = sorted((ROOT / "docs" / "decisions").glob("0*.md"))
    assert re.findall(r"\((0\S+)\)", index) == [page.name for page in decisions]
    assert len({page.name[:4] for page in decisions}) == len(decisions), "a number is there twice"


def test_every_benchmark_is_explained_with_its_target() -> None:
    page = (ROOT / "docs" / "benchmarks.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \|.*\| (\w+) ≤ ([\d.]+)[^|]*\|$", page, re.MULTILINE)
    shown = {name: (which == "ours", float(limit)) for name, which, limit in rows}
    assert shown == {name: (one.is_absolute, one.limit) for name, one in TARGETS.items()}


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) < 150


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_make_target_that_is_named_exists(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"(?:^|`)make ([a-z-]+)", page.read_text(), re.MULTILINE))
    assert named - targets == set()


def test_make_help_lists_every_target() -> None:
    makefile = (ROOT / "Makefile").read_text()
    phony = set(" ".join(re.findall(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)).split())
    explained = set(re.findall(r"^([a-z-]+):.*## ", makefile, re.MULTILINE))
    assert phony - explained == {"setup-build", "setup-cluster", "setup-run", "setup-vm"}
