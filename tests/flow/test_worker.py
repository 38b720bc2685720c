"""What happens to a message after it is stored: once, in time, and never silently skipped."""

from __future__ import annotations

import asyncio
import time

import pytest

from recollect import Memory
from recollect.enrichment import Enrichment
from recollect.errors import Conflict, EmbeddingError, NotFound
from recollect.learning import Learning
from recollect.records import DAY_MS, Changes, Job, Partition, Record, Scope, as_datetime
from recollect.stores import open_store
from recollect.stores.in_memory import InMemoryStore
from recollect.testing.fakes import CountingStore, FailingEmbedder, GatedEmbedder, HashingEmbedder
from recollect.worker import CONFLICT_TRIES, GIVE_WAY_S, PATIENCE, Worker

ANN = Partition("default", "ann")


async def test_words_are_found_at_once_and_meaning_after_the_work(memory):
    ann = memory.user("ann")
    message = await ann.session("s").add_message("user", "My bicycle is called Rocinante.")
    (hit,) = await ann.search_memory("rocinante")
    assert (hit.id, hit.legs["words"].score > 0, hit.legs["meaning"].score) == (message.id, True, 0)
    assert await memory.work() == 1
    (hit,) = await ann.search_memory("rocinante")
    assert hit.legs["meaning"].score > 0
    record = await ann.get_memory(message.id)
    assert record.vector.model == "hashing-64"
    assert record.importance != 0.5


async def test_one_job_processes_everything_a_message_says(memory):
    ann = memory.user("ann")
    await ann.session("s").add_message("user", "I live in Bergen with my sister Zora, and I prefer concise answers.")
    assert await memory.work() == 1
    (city,) = await ann.facts.get("city")
    assert (await ann.get_memory(city.id)).vector is not None, "what was learned is embedded with it"
    assert (await ann.profile()).preferences == {"verbosity": "concise"}
    assert await ann.graph.find("Zora") is not None
    (hit, *_) = await ann.search_memory("Bergen", layer="fact")
    assert hit.legs["meaning"].score > 0


async def test_messages_that_say_more_than_one_commit_holds_are_still_learned_from(memory):
    ann = memory.user("ann")
    towns = [f"My friend Zed{chr(97 + n)} lives in Bergen and I am learning Norwegian." for n in range(20)]
    await ann.session("s").add_messages([{"role": "user", "content": town} for town in towns])
    assert await memory.work() > 1
    friends = {fact.value for fact in await ann.facts.get("friend")}
    assert friends == {f"Zed{chr(97 + n)}" for n in range(20)}


async def test_the_worker_gives_way_to_writers_but_not_for_ever(open_memory):
    memory = await open_memory(worker=True)
    with memory._flow.ledger.traffic:  # somebody who keeps writing
        began = time.monotonic()
        await memory.user("ann").add_memory("The tea is green.")
        async with asyncio.timeout(10):
            while not memory.describe()["jobs"]["done"]:
                await asyncio.sleep(0.001)
    assert time.monotonic() - began >= GIVE_WAY_S


class BrokenEnricher:
    name = "broken"
    immediate = True

    async def drafts(self, messages):
        raise IndexError("the canary text")


async def test_a_broken_extractor_is_a_separate_failure_and_the_message_is_still_enriched(memory, clock, caplog):
    flow, ann = memory._flow, memory.user("ann")
    learning = Learning(flow.ledger, flow.indexes, BrokenEnricher())
    enrichment = Enrichment(flow.ledger, flow.indexes, HashingEmbedder(), learning, flow.settings)
    consolidation = flow.upkeep._consolidation
    worker = Worker(
        flow.ledger, flow.indexes, enrichment, consolidation, flow.upkeep, flow.indexing, flow.settings, flow.count
    )
    message = await ann.session("s").add_message("user", "I live in Bergen.")
    for _ in range(6):
        await worker.work()
        clock.advance(minutes=10)
    assert (await ann.get_memory(message.id)).vector is not None
    (failure,) = await ann.failures()
    assert (failure.data["kind"], failure.content) == ("learn", "IndexError")
    assert "canary" not in caplog.text


async def test_when_nothing_is_due_nothing_is_run(memory, clock):
    assert await memory.work() == 0
    await memory.user("ann").session("s").add_interaction("hello", "hi")
    assert await memory.work() == 1
    assert await memory.work() == 0
    assert memory.describe()["jobs"] == {"done": 1, "failed": 0}


async def test_a_failing_job_is_retried_with_growing_delays_and_then_succeeds(open_memory, clock):
    embedder = FailingEmbedder(ConnectionError("no route to secret-host"), times=3)
    memory = await open_memory(embedder=embedder)
    ann = memory.user("ann")
    message = await ann.session("s").add_message("user", "hello there")
    waits = []
    for _ in range(3):
        assert await memory.work() == 1
        assert await memory.work() == 0, "it is not tried again at once"
        waited = 0
        while (await memory.survey()).oldest_job_at > clock():
            clock.advance(seconds=1)
            waited += 1
        waits.append(waited)
    assert waits == [2, 4, 8]
    assert await memory.work() == 1
    assert (await ann.get_memory(message.id)).vector is not None
    assert await ann.failures() == []


async def fail_for_good(memory, clock):
    for _ in range(5):
        assert await memory.work() == 1
        clock.advance(minutes=10)


async def test_a_job_that_keeps_failing_becomes_a_visible_failure_with_its_reason(open_memory, clock, caplog):
    memory = await open_memory(embedder=FailingEmbedder(ConnectionError("no route to secret-host")))
    ann = memory.user("ann")
    message = await ann.session("s").add_message("user", "the canary text")
    await fail_for_good(memory, clock)
    assert await memory.work() == 0
    (failure,) = await ann.failures()
    assert "EmbeddingError" in failure.content
    assert (failure.data["kind"], failure.data["refs"], failure.data["attempts"]) == ("enrich", [message.id], 5)
    assert "secret-host" not in failure.content
    assert "canary" not in failure.content + caplog.text
    assert memory.describe()["jobs"]["failed"] == 1
    (hit,) = await ann.search_memory("canary")
    assert hit.id == message.id, "the message is kept and found by its words"
    assert await memory.user("bob").failures() == []


class HurriedStore(CountingStore):
    """A store on which others win the race against that many job commits."""

    faster = 0

    async def commit(self, changes: Changes, now: int) -> int:
        if changes.put and changes.finish and self.faster:
            self.faster -= 1
            raise Conflict("a record that this depends on is gone", field="needs")
        return await super().commit(changes, now)


async def test_a_job_that_keeps_losing_conflicts_is_not_a_failure_after_the_usual_attempts(open_memory, clock):
    store = HurriedStore(InMemoryStore())
    memory = await open_memory(store)
    message = await memory.user("ann").session("s").add_message("user", "hello there")
    store.faster = 7 * CONFLICT_TRIES
    for _ in range(7):
        assert await memory.work() == 1
        clock.advance(minutes=10)
    assert (await memory.user("ann").failures(), store.faster) == ([], 0)
    assert await memory.work() == 1
    assert (await memory.user("ann").get_memory(message.id)).vector is not None


async def test_a_job_that_lost_every_conflict_is_not_done_and_comes_back_before_its_lease_ends(open_memory, clock):
    store = HurriedStore(InMemoryStore())
    memory = await open_memory(store)
    await memory.user("ann").session("s").add_message("user", "hello there")
    store.faster = CONFLICT_TRIES
    assert await memory.work() == 1
    assert memory.describe()["jobs"] == {"done": 0, "failed": 0}
    clock.advance(seconds=2)
    assert await memory.work() == 1
    assert memory.describe()["jobs"] == {"done": 1, "failed": 0}


async def test_a_failure_can_be_retried_by_hand(open_memory, clock):
    embedder = FailingEmbedder(times=6)
    memory = await open_memory(embedder=embedder)
    ann = memory.user("ann")
    message = await ann.session("s").add_message("user", "hello there")
    await fail_for_good(memory, clock)
    (failure,) = await ann.failures()
    await ann.retry(failure.id)
    assert await ann.failures() == []
    assert await memory.work() == 1
    clock.advance(minutes=1)
    assert await memory.work() == 1, "a retried job has all its tries again"
    assert (await ann.get_memory(message.id)).vector is not None
    for id in (failure.id, message.id):
        with pytest.raises(NotFound):
            await ann.retry(id)


async def test_a_failure_that_fails_again_stays_one_failure(open_memory, clock):
    memory = await open_memory(embedder=FailingEmbedder())
    ann = memory.user("ann")
    await ann.session("s").add_message("user", "hello there")
    for _ in range(2):
        await fail_for_good(memory, clock)
        (failure,) = await ann.failures()
        await ann.retry(failure.id)


async def test_work_that_comes_up_again_beside_its_failure_and_fails_too_is_over_and_one_failure(open_memory, clock):
    memory = await open_memory(embedder=FailingEmbedder())
    ann = memory.user("ann")
    await ann.session("s").add_message("user", "hello there")
    await fail_for_good(memory, clock)
    (first,) = await ann.failures()
    job = Job(first.data["job"], ANN, first.data["kind"], tuple(first.data["refs"]), clock())
    await memory._flow.ledger.commit(Changes(ANN, enqueue=(job,)))
    await fail_for_good(memory, clock)
    (second,) = await ann.failures()
    assert (second.id, second.created_at > first.created_at) == (first.id, True)
    assert await memory.work() == 0


async def test_one_bad_job_does_not_hold_up_the_others(open_memory):
    class Picky(HashingEmbedder):
        async def embed(self, texts):
            if any("poison" in text for text in texts):
                raise EmbeddingError
            return await super().embed(texts)

    memory = await open_memory(embedder=Picky())
    chat = memory.user("ann").session("s")
    bad = await chat.add_message("user", "poison")
    good = [await chat.add_message("user", f"number {n} is good") for n in range(40)]
    await memory.work()
    ann = memory.user("ann")
    assert all([(await ann.get_memory(message.id)).vector for message in good])
    assert (await ann.get_memory(bad.id)).vector is None


async def test_work_of_an_unknown_kind_is_shown(memory, clock):
    await memory._flow.ledger.commit(Changes(ANN, enqueue=(Job("j1", ANN, "teleport"),)))
    for _ in range(5 * PATIENCE):
        assert await memory.user("ann").failures() == [], "a worker that knows it may come by"
        await memory.work()
        clock.advance(minutes=10)
    (failure,) = await memory.user("ann").failures()
    assert failure.content.endswith("this version does not know jobs of kind teleport")


async def test_work_an_earlier_version_gave_up_as_unknown_is_taken_up_again(memory, clock):
    ann = memory.user("ann")
    message = await ann.session("s").add_message("user", "I live in Bergen.")
    (job,) = await memory._flow.ledger.store.claim(clock(), 60, 1)
    given_up, kept = (
        Record(f"f{n}", "failure", Scope(*ANN), why, {"job": f"j{n}", "kind": job.kind, "refs": list(job.refs)})
        for n, why in enumerate((f"Unavailable: kind: this version does not know jobs of kind {job.kind}", "TypeError"))
    )
    await memory._flow.ledger.commit(Changes(ANN, put=(given_up, kept), finish=(job,)))
    clock.advance(days=2)
    await memory.work()
    assert [failure.id for failure in await ann.failures()] == [kept.id]
    assert (await ann.get_memory(message.id)).vector is not None


async def test_work_for_a_model_that_is_not_configured_says_so(open_memory, clock):
    memory = await open_memory(job_attempts_max=1)
    await memory._flow.ledger.commit(Changes(ANN, enqueue=(Job("r1", ANN, "read", ("m1",)),)))
    for _ in range(PATIENCE):
        await memory.work()
        clock.advance(minutes=10)
    (failure,) = await memory.user("ann").failures()
    assert failure.content.endswith("no chat model is set, which jobs of kind read need")


async def test_a_message_forgotten_meanwhile_is_not_brought_back(open_memory):
    embedder = GatedEmbedder()
    memory = await open_memory(embedder=embedder)
    ann = memory.user("ann")
    gone, kept = await ann.session("s").add_interaction("forget the canary", "keep the answer")
    working = asyncio.create_task(memory.work())
    await embedder.entered.wait()
    await ann.forget(gone.id)
    embedder.open.set()
    await working
    assert [message.id for message in await ann.session("s").window()] == [kept.id]
    assert (await ann.get_memory(kept.id)).vector is not None
    assert await ann.failures() == []


async def test_an_erased_user_is_not_brought_back_by_a_late_job(open_memory, clock):
    embedder = GatedEmbedder()
    memory = await open_memory(embedder=embedder)
    ann = memory.user("ann")
    await ann.session("s").add_interaction("the canary sings", "indeed")
    await ann.add_memory("the canary is yellow")
    working = asyncio.create_task(memory.work())
    await embedder.entered.wait()
    await ann.erase()
    embedder.open.set()
    await working
    clock.advance(days=2)
    await memory.work()
    assert (await memory.survey()).records == {}
    assert (await memory.survey()).jobs_waiting == 0
    assert len(await ann.export()) == 1


async def test_an_update_during_the_work_is_not_lost(open_memory):
    embedder = GatedEmbedder()
    memory = await open_memory(embedder=embedder)
    ann = memory.user("ann")
    added = await ann.add_memory("The key is in the blue box.")
    working = asyncio.create_task(memory.work())
    await embedder.entered.wait()
    await ann.update_memory(added.id, content="The key is in the red box.")
    embedder.open.set()
    await working
    await memory.work()
    record = await ann.get_memory(added.id)
    assert record.content == "The key is in the red box."
    assert record.vector is not None
    assert await ann.failures() == []


async def test_a_job_at_work_keeps_its_lease(open_memory, tmp_path, clock):
    slow, quick = GatedEmbedder(), HashingEmbedder()
    url = f"sqlite:///{tmp_path}/shared.db"
    first = await open_memory(url, embedder=slow, lease_s=0.3)
    second = await open_memory(url, embedder=quick, lease_s=0.3)
    message = await first.user("ann").session("s").add_message("user", "hello there")
    working = asyncio.create_task(first.work())
    await slow.entered.wait()
    for _ in range(3):
        clock.advance(milliseconds=250)
        due = clock() + 250
        async with asyncio.timeout(5):
            while (await second.survey()).oldest_job_at < due:
                await asyncio.sleep(0.02)
        assert await second.work() == 0, "nobody else gets it while it is worked on"
    slow.open.set()
    assert await working == 1
    assert quick.calls == 0
    assert (await second.user("ann").get_memory(message.id)).vector is not None


async def test_the_job_of_a_stopped_worker_goes_to_another_at_once(open_memory, tmp_path, clock):
    slow = GatedEmbedder()
    url = f"sqlite:///{tmp_path}/shared.db"
    first = await open_memory(url, embedder=slow)
    second = await open_memory(url)
    message = await first.user("ann").session("s").add_message("user", "hello there")
    working = asyncio.create_task(first.work())
    await slow.entered.wait()
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)
    assert await second.work() == 1
    assert (await second.user("ann").get_memory(message.id)).vector is not None


async def test_two_workers_share_the_jobs_and_do_each_once(open_memory, tmp_path):
    embedders = GatedEmbedder(), GatedEmbedder()
    url = f"sqlite:///{tmp_path}/shared.db"
    memories = [await open_memory(url, embedder=embedder, claim_jobs=4) for embedder in embedders]
    for number in range(40):
        await memories[0].user(f"user {number % 5}").session("s").add_message("user", f"message number {number}")
    working = [asyncio.create_task(memory.work()) for memory in memories]
    async with asyncio.timeout(30):
        for embedder in embedders:  # on a busy machine, one worker could be done before the other has begun
            await embedder.entered.wait()
    for embedder in embedders:
        embedder.open.set()
    counts = await asyncio.gather(*working)
    assert sum(counts) == 40
    assert sum(embedder.texts for embedder in embedders) == 40
    assert min(counts) >= 4
    assert (await memories[0].survey()).jobs_running == 0


async def test_a_memory_with_its_own_worker_needs_no_call(store_url):
    async with Memory.open(store_url, embedder=HashingEmbedder()) as memory:
        ann = memory.user("ann")
        message = await ann.session("s").add_message("user", "hello there")
        async with asyncio.timeout(10):
            while (await ann.get_memory(message.id)).vector is None:
                await asyncio.sleep(0.01)


async def test_a_worker_elsewhere_finds_the_work_this_process_left(tmp_path):
    url = f"sqlite:///{tmp_path}/shared.db"
    async with (
        Memory.open(url, embedder=HashingEmbedder(), worker=False) as here,
        Memory.open(url, embedder=HashingEmbedder(), poll_s=0.05),
    ):
        message = await here.user("ann").session("s").add_message("user", "hello there")
        async with asyncio.timeout(10):
            while (await here.user("ann").get_memory(message.id)).vector is None:
                await asyncio.sleep(0.01)


async def test_internal_work_that_was_given_up_is_reported_to_the_operator(memory, clock):
    store = memory._running.ledger.store
    own = Partition("{server}", "keys")
    scope = Scope(own.org, own.user)
    reason = Record(id="f1", layer="failure", scope=scope, content="a reason", data={"kind": "upkeep", "attempts": 3})
    await store.commit(Changes(own, put=(reason,)), clock())
    assert [failure.content for failure in await memory.failures()] == ["a reason"]
    assert await memory.users() == [], "and stays no user's"


async def test_a_fact_embedded_while_an_older_value_arrives_keeps_both_and_can_be_changed(memory, clock):
    ann = memory.user("ann")
    fact = await ann.add_fact("city", "Oslo")
    await memory.work()
    # As if another process had embedded it before its job's turn came.
    again = Job("enrich:again", ANN, "enrich", (fact.id,), due_at=clock())
    await memory._flow.ledger.commit(Changes(ANN, enqueue=(again,)))
    await ann.session("s").add_message("user", "I live in Rome.", created_at=as_datetime(clock() - DAY_MS))
    await memory.work()
    await ann.add_fact("city", "Bergen")
    assert [fact.value for fact in await ann.facts.history("city")] == ["Rome", "Oslo", "Bergen"]


async def test_however_many_users_there_are_one_look_tells_that_no_work_was_given_up(open_memory, store_url, clock):
    store = CountingStore(await open_store(store_url))
    memory = await open_memory(store)
    for number in range(40):
        await memory.user(f"user {number}").add_memory("The tea is green.")
    store.reset()
    assert await memory.failures() == []
    assert store.calls["list"] == 0
    for number in (7, 23):
        scope = Scope("default", f"user {number}")
        given_up = Record(id=f"f{number}", layer="failure", scope=scope, content="a reason", data={"kind": "enrich"})
        await store.commit(Changes(scope.partition, put=(given_up,)), clock())
    assert {failure.id for failure in await memory.failures()} == {"f7", "f23"}
