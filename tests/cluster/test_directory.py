# SPDX-License-Identifier: Apache-2.0
"""The directory of a cluster is emptied by it, so it must not be somebody else's."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tools.cluster.cluster import find_cluster, stop
from tools.cluster.component import ClusterError

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can stop a cluster")


def test_a_directory_with_other_files_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(ClusterError, match="has other files"):
        stop(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_an_empty_directory_and_one_that_is_not_there_are_fine(tmp_path: Path) -> None:
    for directory in (tmp_path / "empty", tmp_path / "missing"):
        if directory.name == "empty":
            directory.mkdir()
        assert stop(directory) is False
        assert not directory.exists()


def test_a_damaged_state_is_told_and_can_be_stopped(tmp_path: Path) -> None:
    directory = tmp_path / "cluster"
    directory.mkdir()
    (directory / ".lock").touch()
    (directory / "state.json").write_text("{")
    with pytest.raises(ClusterError, match=r"is damaged .* make cluster-stop"):
        find_cluster(directory)
    assert stop(directory) is True
    assert not directory.exists()
