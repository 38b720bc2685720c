"""LangChain: chat history, retriever and agent middleware over one memory.

    history = ChatMessageHistory(memory.user("ann").session("monday"))
    retriever = Retriever(user=memory.user("ann"), k=5)
    agent = create_agent(model, middleware=[MemoryMiddleware(memory.user("ann").session("monday"))])

Handles may come from `recollect.Memory` or from `recollect.sync.Memory`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, NotRequired, cast

from recollect.adapters import extra, langchain_shape
from recollect.adapters.bridge import Bridge, SessionHandle, UserHandle, checked
from recollect.adapters.verbatim import (
    add_in_pieces,
    add_what_fits,
    all_messages,
    as_query,
    calls_of,
    filled,
    labels_of,
    shell_of,
)
from recollect.context import Context
from recollect.context_policy import ContextPolicy
from recollect.conversation import Message
from recollect.errors import ValidationError
from recollect.policies.shells import HOLE
from recollect.records import Hit, derived_id, iso
from recollect.session import Session
from recollect.unfolding import says_nothing, unfolded
from recollect.user import User

with extra("langchain"):
    from langchain.agents.middleware.types import (
        AgentMiddleware,
        AgentState,
        ModelRequest,
        ModelResponse,
        PrivateStateAttr,
    )
    from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
    from langchain_core.chat_history import BaseChatMessageHistory
    from langchain_core.documents import Document
    from langchain_core.messages import (
        AIMessage,
        BaseMessage,
        HumanMessage,
        SystemMessage,
        convert_to_messages,
        message_to_dict,
        messages_from_dict,
    )
    from langchain_core.retrievers import BaseRetriever, LangSmithRetrieverParams
    from langgraph.runtime import Runtime
    from pydantic import ConfigDict, PrivateAttr
    from pydantic_core import from_json

# ── messages ─────────────────────────────────────────────────────────────────────────────────────


def to_stored(message: BaseMessage) -> dict[str, Any]:
    """A message as the arguments of `add_message`; `from_stored` restores the same message."""
    return langchain_shape.to_stored(message_to_dict(message))


def from_stored(message: Message) -> list[BaseMessage]:
    """A stored message for LangChain, whoever stored it: one that has tool calls and results in it becomes several."""
    shell = shell_of(langchain_shape.NAME, message, from_json)
    try:
        data = shell["data"]
        data["content"] = filled(data["content"], message)
        if data.get("tool_calls") == HOLE:
            data["tool_calls"] = [langchain_shape.tool_call(call) for call in calls_of(message)]
        return messages_from_dict([shell])
    except (TypeError, KeyError, ValueError):
        return [_plain(each) for each in unfolded(message)]


def _plain(message: Message) -> BaseMessage:
    """A message that did not come through LangChain."""
    given: dict[str, Any] = {"role": message.role, "content": message.content, "id": message.id or None}
    if message.name:
        given["name"] = message.name
    if message.role == "tool":
        given["tool_call_id"] = message.tool_call_id or ""
    if message.tool_calls:
        given["tool_calls"] = [langchain_shape.tool_call(call) for call in calls_of(message)]
    return convert_to_messages([given])[0]


# ── chat history ─────────────────────────────────────────────────────────────────────────────────


class ChatMessageHistory(BaseChatMessageHistory):
    """The messages of a session; works in `RunnableWithMessageHistory`, with `await` and without.

    With a limit, in messages or in tokens, only the newest are read, tool calls together with their results; all
    are stored.
    """

    def __init__(self, session: SessionHandle, *, limit: int | None = None, max_tokens: int | None = None) -> None:
        super().__init__()
        self._session = checked(session, "session")
        self._limit, self._max_tokens = limit, max_tokens
        self._bridge = Bridge()

    @property
    def messages(self) -> list[BaseMessage]:  # type: ignore[override]
        """The messages, in order."""
        return self._bridge.run(self._session, self._read)

    async def aget_messages(self) -> list[BaseMessage]:
        return await self._bridge.wait(self._session, self._read)

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Append messages. When this returns, they are stored."""
        self._bridge.run(self._session, lambda session: _add(session, messages))

    async def aadd_messages(self, messages: Sequence[BaseMessage]) -> None:
        await self._bridge.wait(self._session, lambda session: _add(session, messages))

    def clear(self) -> None:
        """Forget the session and what was learned from it alone."""
        self._bridge.run(self._session, Session.delete)

    async def aclear(self) -> None:
        await self._bridge.wait(self._session, Session.delete)

    async def _read(self, session: Session) -> list[BaseMessage]:
        if self._limit is None and self._max_tokens is None:
            stored = await all_messages(session)
        else:
            stored = await session.window(messages=self._limit, tokens=self._max_tokens)
        return [each for message in stored if _is_read(message) for each in from_stored(message)]


def _is_read(message: Message) -> bool:
    """Whether LangChain can use a message: its own always, those of others if they say something."""
    return not says_nothing(message) or shell_of(langchain_shape.NAME, message, str) is not None


async def _add(session: Session, messages: Sequence[BaseMessage]) -> None:
    await add_in_pieces(session, [to_stored(message) for message in messages])


# ── retriever ────────────────────────────────────────────────────────────────────────────────────


class Retriever(BaseRetriever):
    """What the user's memory holds on a question, as documents with score, layer, id and the time it was said.

    `invoke(question, k=10)` returns a different number of them.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    user: UserHandle
    k: int = 5
    layer: str | list[str] | None = None
    where: dict[str, Any] | None = None
    quality: Literal["fast", "best"] | None = None
    _bridge: Bridge = PrivateAttr(default_factory=Bridge)

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        return self._bridge.run(self.user, lambda user: self._found(user, query, k))

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        return await self._bridge.wait(self.user, lambda user: self._found(user, query, k))

    def _get_ls_params(self, **_kwargs: Any) -> LangSmithRetrieverParams:
        """Its name in traces: a class called Retriever would have no name of its own there."""
        return LangSmithRetrieverParams(ls_retriever_name="recollect")

    async def _found(self, user: User, query: str, k: int | None) -> list[Document]:
        limit = self.k if k is None else k
        hits = await user.search_memory(
            query, layer=self.layer, where=self.where, limit=limit, quality=self.quality
        )  # fmt: skip
        return [_document(hit) for hit in hits]


def _document(hit: Hit) -> Document:
    record = hit.record
    told = {
        "id": record.id,
        "layer": record.layer,
        "score": hit.score,
        "reason": hit.reason,
        "said_at": iso(record.when),
        "session": record.scope.session or None,
        "role": record.data.get("role"),
    }
    return Document(page_content=record.content, id=record.id, metadata=labels_of(record) | told)


# ── agents ───────────────────────────────────────────────────────────────────────────────────────

SessionOf = Callable[[Runtime[Any]], SessionHandle]


class MemoryState(AgentState[Any]):
    """The state of an agent with what the user said in this turn, which a summary may take out of the messages."""

    recollect_said: NotRequired[Annotated[list[BaseMessage], PrivateStateAttr]]


class MemoryMiddleware(AgentMiddleware[MemoryState, Any, Any]):
    """Gives an agent a memory: each model call sees what is remembered, each turn is stored at its end.

    Pass the session, or a function that finds it from the runtime if one agent serves many users.
    A turn that is stored again, after an interrupt say, is stored only once.
    """

    state_schema = MemoryState

    def __init__(
        self,
        session: SessionHandle | SessionOf,
        *,
        max_tokens: int = 4_000,
        policy: ContextPolicy | Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self._session = session if callable(session) else checked(session, "session")
        self._max_tokens = max_tokens
        self._policy = ContextPolicy.of(policy)
        self._bridge = Bridge()

    def before_agent(self, state: MemoryState, runtime: Runtime[Any]) -> dict[str, Any]:
        return {"recollect_said": _unanswered(state["messages"])}

    async def abefore_agent(self, state: MemoryState, runtime: Runtime[Any]) -> dict[str, Any]:
        return self.before_agent(state, runtime)

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        question = _question(request)
        if question is None:
            return handler(request)
        session = self._session_of(request.runtime)
        return handler(_informed(request, self._bridge.run(session, lambda session: self._context(session, question))))

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        question = _question(request)
        if question is None:
            return await handler(request)
        session = self._session_of(request.runtime)
        context = await self._bridge.wait(session, lambda session: self._context(session, question))
        return await handler(_informed(request, context))

    def after_agent(self, state: MemoryState, runtime: Runtime[Any]) -> None:
        self._bridge.run(self._session_of(runtime), lambda session: _store_turn(session, state))

    async def aafter_agent(self, state: MemoryState, runtime: Runtime[Any]) -> None:
        await self._bridge.wait(self._session_of(runtime), lambda session: _store_turn(session, state))

    def _session_of(self, runtime: Runtime[Any]) -> SessionHandle:
        return self._session(runtime) if callable(self._session) else self._session

    async def _context(self, session: Session, question: str) -> Context:
        return await session.get_context(question, max_tokens=self._max_tokens, policy=self._policy)


def _is_summary(message: BaseMessage) -> bool:
    """Whether a message stands for earlier ones: LangChain's summaries speak as the user, who never said that."""
    return isinstance(message, HumanMessage) and "lc_source" in message.additional_kwargs


def _said(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """What the user said."""
    return [message for message in messages if isinstance(message, HumanMessage) and not _is_summary(message)]


def _unanswered(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """What the user said since the last answer: more than one message, if a run failed or was broken off."""
    answers = [place for place, message in enumerate(messages) if _is_answer(message)]
    return _said(messages[answers[-1] + 1 if answers else 0 :])


def _is_answer(message: BaseMessage) -> bool:
    return isinstance(message, AIMessage) and not message.tool_calls


def _question(request: ModelRequest[Any]) -> str | None:
    """What the user said last."""
    state = cast("MemoryState", request.state)
    said = _said(request.messages) or state.get("recollect_said", [])
    text = str(said[-1].text) if said else ""
    return as_query(text) if text.strip() else None


def _informed(request: ModelRequest[Any], context: Context) -> ModelRequest[Any]:
    """The request with what lasts after the agent's own instructions, and what was found before the question.

    An agent that keeps no conversation itself also gets the earlier messages of this one.
    """
    messages: list[Any] = list(request.messages)
    humans = [place for place, message in enumerate(messages) if isinstance(message, HumanMessage)]
    if context.found and humans:
        messages[humans[-1]] = _joined(context.found, messages[humans[-1]])
    if len(humans) == 1 and not _is_summary(request.messages[humans[0]]):
        messages = [*(_plain(Message(**said)) for said in _said_before(context)), *messages]
    request = request.override(messages=messages)
    told = context.lasting if humans else context.system
    if not told:
        return request
    own = request.system_message
    return request.override(system_message=SystemMessage(told) if own is None else _joined(own, told))


def _joined(first: Any, second: Any) -> Any:
    """A message with a text before or after its own content."""
    message, is_first = (second, False) if isinstance(first, str) else (first, True)
    text = first if isinstance(first, str) else second
    if isinstance(message.content, str):
        content: Any = f"{message.content}\n\n{text}" if is_first else f"{text}\n\n{message.content}"
    else:
        part = {"type": "text", "text": text}
        content = [*message.content, part] if is_first else [part, *message.content]
    return message.model_copy(update={"content": content})


def _said_before(context: Context) -> Sequence[dict[str, Any]]:
    """The recent messages without the question, if that was stored already."""
    last = context.recent[-1:]
    return context.recent[:-1] if last and last[0].get("content") == context.query else context.recent


async def _store_turn(session: Session, state: MemoryState) -> None:
    """Store what the user said in this turn and everything after it, as far as it is still in the messages."""
    messages = state["messages"]
    said = _said(messages)[-1:]
    asked = {message.id: message for message in [*state.get("recollect_said", ()), *said]}
    start = max((place for place, message in enumerate(messages, 1) if message in said), default=0)
    after = [message for message in messages[start:] if not _is_summary(message)]
    turn = [*asked.values(), *after] if asked else ()
    await add_what_fits(session, [_turn_to_stored(message) | _once(session, message) for message in turn])


def _turn_to_stored(message: BaseMessage) -> dict[str, Any]:
    """The same, without an artifact that JSON cannot represent: the turn is over, and must not fail for it."""
    try:
        return to_stored(message)
    except ValidationError:
        return to_stored(message.model_copy(update={"artifact": None}))


def _once(session: Session, message: BaseMessage) -> dict[str, str]:
    """The id under which a message of an agent's run is stored, so that it is stored only once."""
    return {"id": derived_id(langchain_shape.NAME, session.id, message.id)} if message.id else {}
