"""The indexes of active users, and where those of the others rest.

Before each use of an index the store is asked what changed since its mark, which costs microseconds when nothing did,
even when another process writes. Recently queried indexes are awake; the least recently queried rest, are spilled to
a file (`aside.py`), or are evicted.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from itertools import islice

from recollect.aside import Aside
from recollect.errors import RecollectError
from recollect.home import Home
from recollect.index import WASTED_ROWS, PartitionIndex
from recollect.records import Partition
from recollect.stores.contract import Mark, Store, offers_of
from recollect.vocabulary import Vocabulary

log = logging.getLogger("recollect.index")

AWAKE, AWAKE_LEAST = 1_000, 8
"""How many of the most recently queried partitions keep what the next query would otherwise rebuild, and how many still
do when memory is short.
"""
ASIDE_ROWS = 2_000
"""Only indexes of up to this many rows are spilled to a file: one is always written whole, however little changed."""
RESTING_BYTES = 2 << 20
"""Memory that resting indexes may take before the least recently queried are spilled. Some stay in memory because a
new message is enriched a moment after it came, and reading an index back takes longer than the rest of that.
"""
VOCABULARIES = 2
"""Vocabularies whose indexes are held at once: the newest, and the one before."""
ASKED_TOGETHER = 4
"""Partitions used by two consecutive queries: each queries the user's and the org's."""
PAGE = 1_000
KEPT_EVERY_S = 600.0
"""What was read of a partition is kept at most this often: each time something is forgotten, what was kept is lost."""


class Indexes:
    """The indexes of recently used partitions; the least recently used are evicted first."""

    def __init__(
        self,
        store: Store,
        model: str,
        dimensions: int,
        language: str,
        bytes_max: int,
        earlier_model: str = "",
        awake: int = AWAKE,
    ) -> None:
        self._store = store
        self._home = Home()
        offers = offers_of(store)
        self._aside = Aside(offers.folder, bytes_max) if offers.folder is not None else None
        self._unchanged, self._keep, self._kept = offers.unchanged, offers.keep, offers.kept
        self._keeping: dict[Partition, asyncio.Task[None]] = {}
        self._shape = (model, dimensions, language, earlier_model)
        self.other_models: set[str] = set()
        self._bytes_max, self._awake_max = bytes_max, awake
        self._held: OrderedDict[Partition, PartitionIndex] = OrderedDict()
        self._awake: OrderedDict[Partition, PartitionIndex] = OrderedDict()
        # At rest in memory, and may be spilled.
        self._resting: OrderedDict[Partition, PartitionIndex] = OrderedDict()
        # Partitions that callers wait for: `_make_room` does not evict them, so that reading need not start over.
        self._reading: Counter[Partition] = Counter()
        # Partitions with pages still to be read; and, while a caller reads them, a future that is set when it stops.
        self._unfinished: set[Partition] = set()
        self._read_in: dict[Partition, asyncio.Future[None]] = {}
        self._bytes = self._resting_bytes = 0
        self._vocabularies: list[Vocabulary] = []
        self._hits = self._misses = 0
        self._next_look: asyncio.TimerHandle | None = None

    def __contains__(self, partition: Partition) -> bool:
        """Whether the partition's index is at hand, so that catching up is cheap."""
        return partition in self._held or (self._aside is not None and partition in self._aside)

    async def at_hand(self, partition: Partition) -> PartitionIndex | None:
        """The partition's index as `current` returns it; None if it would have to be built first."""
        return await self.current(partition) if partition in self else None

    async def all_current(self, partitions: Sequence[Partition]) -> list[PartitionIndex]:
        """The indexes of several partitions, as `current` returns them. A store that can tell with a single look-up
        that nothing was written to any of them is asked only once; one on a server is asked for all concurrently.
        """
        self._home.check()
        held = [(partition, self.as_left(partition)) for partition in partitions]
        marks = {each: index.mark for each, index in held if index is not None and index.mark and not index.is_wasteful}
        if self._unchanged is None:
            return await self._all_at_once(*partitions)
        if len(marks) < len(held) or not self._unchanged(marks):
            return [await self.current(partition) for partition in partitions]
        self._hits += len(held)
        used = [self._used(partition, index) for partition, index in held if index is not None]
        self._make_room()
        return used

    async def _all_at_once(self, first: Partition, *others: Partition) -> list[PartitionIndex]:
        """Catch up all of them concurrently, which takes as long as the slowest."""
        looks = [asyncio.ensure_future(self.current(partition)) for partition in others]
        try:
            return [await self.current(first), *[await look for look in looks]]
        except BaseException:
            for look in looks:
                look.cancel()
            await asyncio.gather(*looks, return_exceptions=True)
            raise

    async def current(self, partition: Partition) -> PartitionIndex:
        """The partition's index, with everything committed before this call."""
        self._home.check()
        if partition in self:
            self._hits += 1
        else:
            self._misses += 1
        self._reading[partition] += 1
        try:
            index = await self._whole(partition)
            self._make_room()
        finally:
            self._reading[partition] -= 1
            if not self._reading[partition]:
                del self._reading[partition]
        return index

    async def _whole(self, partition: Partition) -> PartitionIndex:
        """The whole index. One of several concurrent callers reads it; the others wait, then catch up on what is new
        since. If the reader gives up, the next caller continues.
        """
        while (under_way := self._read_in.get(partition)) is not None:
            await asyncio.wait([under_way])
        if partition in self and partition not in self._unfinished:
            return await self._caught_up(partition)
        self._read_in[partition] = asyncio.get_running_loop().create_future()
        try:
            index = await self._caught_up(partition)
            if self._kept is not None and index.uptake.may_take_over:
                await self._take_over(self._kept, partition, index)
            return index
        finally:
            self._read_in.pop(partition).set_result(None)

    async def _caught_up(self, partition: Partition) -> PartitionIndex:
        """The partition's index after applying everything the store reports, page by page.

        A caller that gives up leaves the pages already applied; the next caller resumes from there.
        """
        while True:
            index = self.as_left(partition)
            if index is None or index.is_wasteful:
                index = self._fresh(partition)
            mark = index.mark
            try:
                delta = await self._store.changes(partition, mark, PAGE)
            except BaseException:
                if mark is None and self._held.get(partition) is index:
                    self.drop(partition)  # it was never counted, and while the store is down any number could pile up
                raise
            if index.mark is not mark or self._held.get(partition) is not index:
                continue  # another caller applied the page meanwhile
            if (delta.mark is mark or delta.mark == mark) and not delta.reset:
                return self._used(partition, index)
            if delta.reset and mark is not None:
                index = self._fresh(partition)
            try:
                index.apply(delta)
            except BaseException:
                self.drop(partition)  # there is no resuming from a half-applied page
                raise
            self._used(partition, index)
            self._count(index)
            (self._unfinished.add if delta.more else self._unfinished.discard)(partition)
            if not delta.more:
                self.tell_of(index.spaces.others)
                return index
            await asyncio.sleep(0)  # a store in memory would never yield to other tasks

    async def _take_over(
        self, kept: Callable[[Partition], Awaitable[bytes | None]], partition: Partition, index: PartitionIndex
    ) -> None:
        """Give a fresh index the words that an earlier one has read."""
        try:
            data = await kept(partition)
        except RecollectError as error:
            log.warning("texts are read again: what was kept of them cannot be read (%s)", error)
            return
        if data is not None:
            await index.take_over(data)

    def keep(self, partition: Partition) -> None:
        """Have the store keep what was read of this partition, in the background, if that is worth it."""
        index = self._held.get(partition)
        if self._keep is None or index is None or not index.uptake.is_worth_keeping or partition in self._keeping:
            return
        loop = asyncio.get_running_loop()
        if loop.time() >= index.keep_again_at_s:
            index.keep_again_at_s = loop.time() + KEPT_EVERY_S
            self._keeping[partition] = loop.create_task(self._kept_now(self._keep, partition, index))

    async def _kept_now(
        self, keep: Callable[[Partition, Mark, bytes], Awaitable[bool]], partition: Partition, index: PartitionIndex
    ) -> None:
        is_kept = False
        try:
            mark, packed = index.mark, index.packing()
            data = await asyncio.to_thread(packed)
            is_kept = mark is not None and await keep(partition, mark, data)
        except RecollectError as error:
            log.info("the words of a user's messages were not kept, and will be read again (%s)", error)
        finally:
            del self._keeping[partition]
            if not is_kept:
                index.uptake.lost_kept()

    async def kept_all(self) -> None:
        """Wait until everything is kept that is being kept now."""
        await asyncio.gather(*self._keeping.values(), return_exceptions=True)

    def _used(self, partition: Partition, index: PartitionIndex) -> PartitionIndex:
        """Return the index, marked as awake and most recently used."""
        index.trim()
        self._wake(partition)
        self._held.move_to_end(partition)
        self._awake[partition] = index
        self._awake.move_to_end(partition)
        return index

    def as_left(self, partition: Partition) -> PartitionIndex | None:
        """The partition's index as of its last use, in memory or read back from the file; None if it is in neither.

        The store is not queried.
        """
        index = self._held.get(partition)
        if index is None and self._aside is not None and partition in self._aside:
            index = self._aside.get(partition)
            if index is not None:
                index.laid_aside, index.counted_nbytes = index.state, 0
                self._held[partition] = index
                self._count(index)
        return index

    def _lay_to_rest(self) -> None:
        """Put the least recently queried of the awake indexes to rest."""
        partition, index = self._awake.popitem(last=False)
        index.rest()
        self._count(index)
        if self._aside is not None and len(index.records) <= ASIDE_ROWS:
            self._resting[partition] = index
            self._resting_bytes += index.counted_nbytes
            while self._resting_bytes > RESTING_BYTES:
                self._lay_aside(self._aside)

    def _lay_aside(self, aside: Aside) -> None:
        """Spill the index that has rested longest."""
        partition, index = self._resting.popitem(last=False)
        self._resting_bytes -= index.counted_nbytes
        if index.holds_gone:
            self.drop(partition)
        elif (index.laid_aside == index.state and partition in aside) or aside.put(partition, index):
            del self._held[partition]
            self._bytes -= index.counted_nbytes
            if self._next_look is None:
                self._drop_old(aside)

    def _drop_old(self, aside: Aside) -> None:
        """Drop spilled indexes whose time is over, and come back for the others: also while nobody asks anything."""
        wait_s = aside.drop_old()
        look = asyncio.get_running_loop().call_later
        self._next_look = None if wait_s is None else look(wait_s, self._drop_old, aside)

    def _wake(self, partition: Partition) -> None:
        """Note that an index no longer rests."""
        index = self._resting.pop(partition, None)
        if index is not None:
            self._resting_bytes -= index.counted_nbytes

    def _count(self, index: PartitionIndex) -> None:
        """Bring the count of an index's memory up to date."""
        nbytes = index.nbytes
        self._bytes += nbytes - index.counted_nbytes
        index.counted_nbytes, index.counted_opened = nbytes, index.opened

    def tell_of(self, models: set[str]) -> None:
        """Warn once about each other model that memories are embedded with."""
        model, _, _, earlier = self._shape
        for other in sorted(models - self.other_models - {model}) if model else ():
            self.other_models.add(other)
            found = "by words and, more slowly, by meaning" if other == earlier else "by words, not by meaning"
            log.warning(
                "memories here were embedded with %s, but the embedder is now %s: they are found %s. "
                "Run `recollect reembed`.",
                other, model, found,
            )  # fmt: skip

    def drop(self, partition: Partition) -> None:
        """Drop a partition's index."""
        self._wake(partition)
        self._unfinished.discard(partition)
        index = self._held.pop(partition, None)
        self._awake.pop(partition, None)
        if self._aside is not None:
            self._aside.drop(partition)
        self._bytes -= 0 if index is None else index.counted_nbytes  # an index without records counts too

    def purged(self, partition: Partition, rows: int) -> None:
        """Note that the store removed dead rows: an index that may hold many of them in vain is rebuilt."""
        if rows > WASTED_ROWS:
            self.drop(partition)
        elif rows:
            self.dropped(partition)

    def dropped(self, partition: Partition) -> None:
        """Note that the store dropped records: a spilled copy of them goes at once, and an index that still holds them
        is no longer spilled.
        """
        if self._aside is not None:
            self._aside.drop(partition)
        if partition in self._held:
            self._held[partition].lacks_news = True
            self._held[partition].uptake.lost_kept()

    def _fresh(self, partition: Partition) -> PartitionIndex:
        self.drop(partition)
        index = PartitionIndex(*self._shape)
        self._change_vocabulary(index.vocabulary)
        self._held[partition] = index
        return index

    def _change_vocabulary(self, vocabulary: Vocabulary) -> None:
        """Drop the indexes built with a vocabulary that has long been full: it is freed with the last of them."""
        if any(vocabulary is each for each in self._vocabularies):
            return
        self._vocabularies = [*self._vocabularies[1 - VOCABULARIES :], vocabulary]
        for partition, index in list(self._held.items()):
            if not any(index.vocabulary is each for each in self._vocabularies):
                self.drop(partition)

    def close(self) -> None:
        """Discard the spilled indexes, and give up what is being kept."""
        for task in self._keeping.values():
            task.cancel()
        if self._next_look is not None:
            self._next_look.cancel()
        if self._aside is not None:
            self._aside.close()

    def describe(self) -> dict[str, int]:
        aside = self._aside
        return {
            "partitions": len(self._held),
            "aside": sum([partition not in self._held for partition in aside or ()]),
            "aside_mib": aside.nbytes >> 20 if aside is not None else 0,
            "records": sum(len(index) for index in self._held.values()),
            "mib": self._bytes >> 20,
            "hits": self._hits,
            "misses": self._misses,
        }

    def _make_room(self) -> None:
        """Put the least recently queried indexes to rest, and evict while memory is still over its limit."""
        # The previous query built things in the indexes it used, after their memory was counted.
        for index in islice(reversed(self._awake.values()), ASKED_TOGETHER):
            if index.opened != index.counted_opened:
                self._count(index)
        while len(self._awake) > self._awake_max:
            self._lay_to_rest()
        while self._bytes > self._bytes_max and len(self._awake) > AWAKE_LEAST:
            self._lay_to_rest()
        while self._bytes > self._bytes_max and len(self._held) > 1:
            oldest = next((each for each in self._held if each not in self._reading), None)
            if oldest is None:
                break
            self.drop(oldest)
