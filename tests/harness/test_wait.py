# SPDX-License-Identifier: Apache-2.0
"""Waiting ends with what was waited for, or says what did not come."""

import asyncio

import pytest

from tests.harness.wait import eventually, eventually_async


def test_the_first_true_answer_is_returned() -> None:
    answers = iter(["", None, "here", "later"])
    assert eventually(lambda: next(answers)) == "here"


def test_what_does_not_come_is_told_with_the_last_answer() -> None:
    cups: dict[str, str] = {}
    with pytest.raises(AssertionError) as failure:
        eventually(lambda: cups.get("a cup of tea"), lambda: "the kettle is cold", seconds=0)
    assert "a cup of tea" in str(failure.value)
    assert "last answer: None" in str(failure.value)
    assert str(failure.value).endswith("\nthe kettle is cold")


def test_others_go_on_meanwhile_and_an_answer_may_be_awaited() -> None:
    async def scenario() -> None:
        is_done = asyncio.Event()
        asyncio.get_running_loop().call_soon(is_done.set)
        await eventually_async(is_done.is_set)
        await eventually_async(is_done.wait)
        with pytest.raises(AssertionError, match="tea"):
            await eventually_async(lambda: is_done is None, "tea", seconds=0)

    asyncio.run(scenario())
