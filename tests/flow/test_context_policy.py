"""The policy of a context: one value for what it is made of, and for how its sections share the budget."""

from __future__ import annotations

from dataclasses import replace

import pytest

from recollect import ContextPolicy
from recollect.errors import ValidationError
from recollect.sync import Memory as SyncMemory

QUESTION = "How is the sail of the Albatross?"


@pytest.fixture
async def chat(memory):
    """A user with more to tell than a small budget holds, in several sections."""
    ann = memory.user("ann")
    for number in range(40):
        await ann.add_fact(f"boat_{number}", f"the {number}. boat of the old yard")
        await ann.add_memory(f"Sail {number} of the Albatross is torn at the seam, said the sailmaker on day {number}.")
    chat = ann.session("now")
    for number in range(30):
        await chat.add_interaction(f"It is raining on the {number}. day.", f"Then stay inside on day {number}.")
    await memory.work()
    return chat


async def test_a_policy_says_at_once_what_single_arguments_say(chat):
    singly = await chat.get_context(QUESTION, layers=["conversation", "fact"], sections=["profile", "recent"], window=6)
    policy = ContextPolicy(layers=["conversation", "fact"], sections=["profile", "recent"], window=6)
    assert (await chat.get_context(QUESTION, policy=policy)) == singly
    by_fields = {"layers": ("conversation", "fact"), "sections": ("profile", "recent"), "window": 6}
    assert (await chat.get_context(QUESTION, policy=by_fields)) == singly
    free = await chat.get_context(QUESTION, policy=ContextPolicy())
    assert free.to_dict() == (await chat.get_context(QUESTION)).to_dict()


async def test_what_is_given_beside_a_policy_takes_precedence(chat):
    policy = ContextPolicy(sections=["profile", "recent"], window=6)
    context = await chat.get_context(QUESTION, policy=policy, sections=["recent"], window=2)
    assert ([section.name for section in context.sections], len(context.recent)) == (["recent"], 2)
    assert (await chat.get_context(QUESTION, policy=replace(policy, sections=None))).hits, "all sections again"


@pytest.mark.parametrize("section", ["profile", "recent", "knowledge"])
@pytest.mark.parametrize("max_tokens", [300, 1_500, 4_000])
async def test_a_section_takes_no_more_than_its_share_and_others_no_less_than_before(chat, section, max_tokens):
    free = await chat.get_context(QUESTION, max_tokens=max_tokens)
    bound = await chat.get_context(QUESTION, max_tokens=max_tokens, policy=ContextPolicy(shares={section: 0.1}))
    before, after = ({each.name: each.tokens for each in context.sections} for context in (free, bound))
    assert after.get(section, 0) <= 0.1 * max_tokens < before[section], "less than it would have taken"
    assert all(after[name] >= before[name] for name in before.keys() - {section}), "nothing else gets less"
    assert len(bound.report.left_out) > len(free.report.left_out), "what gave way is reported"


async def test_what_a_section_leaves_goes_to_the_others(chat):
    free = await chat.get_context(QUESTION, max_tokens=1_500)
    bound = await chat.get_context(QUESTION, max_tokens=1_500, policy=ContextPolicy(shares={"recent": 0.05}))
    before, after = ({each.name: each.tokens for each in context.sections} for context in (free, bound))
    assert before["recent"] > after["recent"] and before["knowledge"] < after["knowledge"]


async def test_the_report_says_when_it_was_the_share_that_kept_something_out(chat):
    context = await chat.get_context(QUESTION, max_tokens=1_000, policy=ContextPolicy(shares={"profile": 0.05}))
    reasons = {out.reason for out in context.report.left_out if out.section == "profile"}
    assert reasons and all(reason.endswith("and its section may take 50") for reason in reasons)


async def test_a_share_of_nothing_leaves_a_section_out(chat):
    context = await chat.get_context(QUESTION, policy=ContextPolicy(shares={"recent": 0, "profile": 0.0}))
    assert [section.name for section in context.sections] == ["knowledge"]


async def test_messages_within_a_share_still_move_by_halves(memory):
    chat = memory.user("ben").session("s")
    policy, firsts = ContextPolicy(shares={"recent": 0.2}), []
    for number in range(24):
        await chat.add_interaction(f"question {number}", f"answer {number}")
        context = await chat.get_context("what now?", max_tokens=600, policy=policy)
        assert sum(each.tokens for each in context.sections if each.name == "recent") <= 120
        firsts.append(context.recent[0]["content"])
    assert len(set(firsts)) < len(firsts) // 2, "the beginning of a prompt seldom moves"


async def test_a_policy_serves_users_outside_a_session_too(chat):
    policy = ContextPolicy(sections=["recent", "knowledge"], window=4)
    context = await chat.user.get_context(QUESTION, policy=policy)
    assert [section.name for section in context.sections] == ["knowledge"]


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({"layers": ["dreams"]}, "layers"), ({"sections": []}, "sections"), ({"window": 0}, "window"),
        ({"quality": "good"}, "quality"), ({"shares": {"dreams": 0.5}}, "shares"),
        ({"shares": {"recent": 2}}, "shares"), ({"shares": {"recent": True}}, "shares"),
        ({"shares": ["recent"]}, "shares"), ({"shares": None}, "shares"),
    ],
)  # fmt: skip
async def test_a_policy_is_checked_like_the_arguments_it_stands_for(memory, fields, wrong):
    with pytest.raises(ValidationError) as refused:
        ContextPolicy(**fields)
    assert refused.value.field == wrong
    with pytest.raises(ValidationError) as refused:
        await memory.user("ann").get_context("x", policy=fields)
    assert refused.value.field == f"policy.{wrong}"


def test_code_without_await_takes_a_policy_too():
    with SyncMemory.open("memory://", worker=False) as memory:
        chat = memory.user("ann").session("s")
        chat.add_interaction("It rains.", "Stay inside.")
        context = chat.get_context("What now?", policy=ContextPolicy(sections=["recent"]))
        assert [section.name for section in context.sections] == ["recent"]
