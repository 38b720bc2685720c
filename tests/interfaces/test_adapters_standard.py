"""The suites that frameworks ship for their plug-ins: LangChain's, for retrievers.

No other framework is known to ship one for what we plug in: LangGraph's is for checkpointers only, that of
Pydantic AI for workspaces.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from langchain_core.retrievers import BaseRetriever
from langchain_tests.integration_tests import RetrieversIntegrationTests

from recollect import sync
from recollect.adapters.langchain import Retriever
from recollect.testing.fakes import HashingEmbedder

SAID = ("My canoe Rocinante is green", "The canoe lies behind the boathouse", "I paddle the canoe on Sundays", "Tea?")


class Standard(RetrieversIntegrationTests):
    """What every LangChain retriever must do."""

    user: sync.User

    @property
    def retriever_constructor(self) -> type[BaseRetriever]:
        return Retriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {"user": self.user}

    @property
    def retriever_query_example(self) -> str:
        return "Where is the canoe?"


class TestARetrieverOverConversations(Standard):
    @pytest.fixture(autouse=True)
    def told(self) -> Iterator[None]:
        with sync.Memory.open("memory://", embedder=HashingEmbedder()) as memory:
            self.user = memory.user("ann")
            self.user.session("monday").add_messages([{"role": "user", "content": text} for text in SAID])
            yield


class TestARetrieverOverLongTermMemoriesOnDisk(Standard):
    @pytest.fixture(autouse=True)
    def told(self, tmp_path: Any) -> Iterator[None]:
        with sync.Memory.open(f"sqlite:///{tmp_path}/notes.db", embedder=HashingEmbedder()) as memory:
            self.user = memory.user("ann")
            self.user.add_memories([{"content": text} for text in SAID])
            yield

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {"user": self.user, "layer": "long_term"}
