"""Chatting in a terminal: turns, slash commands that look behind them, and a scene that plays by itself."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import select
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any

from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from recollect import validate
from recollect.enrich.rules import takes_back
from recollect.errors import NotFound, RecollectError, ValidationError
from recollect.importers.files import open_file
from recollect.interfaces.agent import Answer, MemoryAgent
from recollect.interfaces.noticing import Known, in_one_line, news, told
from recollect.interfaces.options import loop_of, on_loop, place
from recollect.interfaces.output import (
    complain,
    day_and_time,
    emit,
    one_line,
    ordinal,
    plain,
    plural,
    say,
    screen,
    visible,
)
from recollect.interfaces.phrases import is_question
from recollect.interfaces.quoting import NEAR
from recollect.interfaces.whose import Whose
from recollect.memory import Memory
from recollect.paging import every
from recollect.policies.ties import QUOTES
from recollect.profile import Fact
from recollect.records import Hit, new_id, system_clock
from recollect.server.agents import DEFAULT, Agent
from recollect.server.executors import Executor, endpoint_module
from recollect.session import Session
from recollect.settings import Settings
from recollect.user import User

with contextlib.suppress(ImportError):
    import readline  # noqa: F401  where it is there, `input` has a history and arrow keys

SCRIPT_BYTES = validate.LIMITS.body_bytes
PROMPT = "      you › "
SPEAKER_COLUMNS = len(PROMPT) - 1

HELP = """\
Tell me something, and ask me about it later, in this session or another.

  /profile     what I know about you
  /why         the memories behind the last answer
  /context     what a model would have been given, and why
  /sessions    the remembered conversations
  /session ID  go back to one of them
  /new [NAME]  start a new session
  /forget ID   forget a memory; /why shows the ids
  /quit        leave (Ctrl-D does too)"""

SPOKEN_COMMANDS = dict.fromkeys(("quit", "exit", "bye", "goodbye", "/exit", "/bye"), "/quit") | {
    "help": "/help",
    "?": "/help",
    "/?": "/help",
}
"""What people type when they have not read the help."""
FORGET_HINT = (
    "I did not keep that. To forget something, ask me about it first; "
    "/why then shows its id, and /forget ID forgets it."
)
_FORGET = re.compile(r"(?:please\s+)?forget(?:\s|\W*$)", re.IGNORECASE)
PIPE_WAIT_S = 1.0
"""How long standard input that is not a terminal may take for its first line before the scene is played."""

SCENE = (
    (
        0,
        "monday",
        (
            "Hello! I'm Mara, and I've just moved to Lisbon with a one-eyed cat called Admiral.",
            "My sister Inês gets married on 12 December, in the lighthouse at Cabo da Roca.",
            "I'm allergic to walnuts, so please keep them out of every recipe.",
            "For the wedding I promised to play the cello, heaven help the guests.",
        ),
    ),
    (
        4,
        "friday",
        (
            "Good morning! What is my cat called?",
            "When does my sister get married, and where?",
            "What food should I avoid?",
            "Who won the chess match?",
            "Which instrument did I promise to play?",
        ),
    ),
)
"""Days after Monday, the session, and what is said in it. Answers come from memory alone."""


Hear = Callable[[str], None]
"""Called with each piece of an answer as it is spoken."""


@dataclass(slots=True)
class Talk:
    """A conversation with the assistant that answers from memory, or with a model that is given what is remembered."""

    memory: Memory
    user: User
    chat: Session
    agent_name: str = ""
    last: Answer | None = None
    model: Executor | None = None

    async def turn(self, text: str, at: datetime | None = None, hear: Hear = lambda _: None) -> Answer:
        """Answer, and remember both sides; call `take_in` once the answer has been given."""
        if self.model is not None:
            return await self._modelled(self.model, text, hear)
        self.last = await MemoryAgent().answer(self.chat, text, at=at)
        said = {"role": "user", "content": text, "created_at": at}
        reply: dict[str, Any] = {"role": "assistant", "content": self.last.text, "created_at": at}
        if self.last.quotes:
            reply["metadata"] = {QUOTES: list(self.last.quotes)}
        await self.chat.add_messages([said, reply])
        return self.last

    async def _modelled(self, model: Executor, text: str, hear: Hear) -> Answer:
        """The same with a model, passed to `hear` as it speaks. What the user said is kept even if the model fails."""
        prepared = await model.prepare(self.chat, text)
        await self.chat.add_message("user", text)
        pieces: list[str] = []
        async with contextlib.aclosing(model.answer(prepared)) as answer:
            async for piece in answer:
                pieces.append(piece)
                hear(piece)
        self.last = Answer("".join(pieces), prepared.context.hits, prepared.context)
        await self.chat.add_message("assistant", self.last.text)
        return self.last

    async def take_in(self) -> list[str]:
        """Learn from what was said, and return what was new in it."""
        before = await Known.of(self.user)
        await self.memory.work()
        return news(before, await Known.of(self.user))

    async def command(self, line: str) -> str:
        """The output of a slash command."""
        name, _, argument = line.partition(" ")
        name = name.lower()
        commands: dict[str, Callable[[str], Awaitable[str]]] = {
            "/profile": self._profile,
            "/context": self._context,
            "/why": self._why,
            "/sessions": self._sessions,
            "/session": self._session,
            "/new": self._new,
            "/forget": self._forget,
            "/help": self._help,
        }
        if name not in commands:
            raise ValidationError("unknown; /help lists the commands", field="command")
        return await commands[name](argument.strip())

    async def _profile(self, _: str) -> str:
        return told(await self.user.profile()) or "I know nothing about you yet."

    async def _context(self, _: str) -> str:
        if self.last is None:
            return "Nothing has been said yet."
        given = [f"{message['role']}:\n{message['content']}" for message in self.last.context.messages]
        return "\n\n".join([*given, self.last.context.explain()])

    async def _why(self, _: str) -> str:
        if self.last is None:
            return "Nothing has been said yet."
        known = [_known(fact) for fact in self.last.facts]
        near = [hit for hit in self.last.hits if hit.relevance >= NEAR]
        return "\n\n".join([*known, *map(_reason, near)]) or "The last answer used no memory."

    async def _sessions(self, _: str) -> str:
        listed = await self.user.sessions(limit=20)
        width = max((len(info.id) for info in listed), default=0)
        return "\n".join(
            f"{info.id:<{width}}  {day_and_time(info.last_activity)}  {info.messages:>4}  {one_line(info.title, 50)}"
            for info in listed
        ) or "Nothing is remembered yet."  # fmt: skip

    async def _new(self, name: str) -> str:
        self.chat, self.last = self.user.session(name or new_session_id(), agent=self.agent_name), None
        return f"This is now session {self.chat.id}."

    async def _session(self, id: str) -> str:
        if not id:
            return f"This is session {self.chat.id}. /session ID switches to another one; /sessions lists them."
        chat = self.user.session(id, agent=self.agent_name)
        if not (await chat.messages(limit=1))[0]:
            raise NotFound("no such session; /sessions lists them")
        self.chat, self.last = chat, None
        return f"Back in session {id}."

    async def _forget(self, id: str) -> str:
        if not id:
            return "Which one? Ask me about it; /why then shows its id, and /forget ID forgets it."
        replies = await self._quoting(id)  # these are forgotten with it
        receipt = await self.user.forget(id)
        self.last = None
        more = f", and {plural(len(replies), 'reply')} of mine that quoted it" if replies else ""
        return f"Forgotten: {plural(max(receipt.count - len(replies), 1), 'memory')}{more}."

    async def _quoting(self, id: str) -> list[str]:
        """Replies that quote a memory, directly or through other replies."""
        await self.user.get_memory(id)
        where = {f"metadata.{QUOTES}": {"exists": True}}
        replies = every(partial(self.user.list_memories, layer="conversation", where=where, limit=1000))
        quotes = {reply.id: set(map(str, reply.metadata[QUOTES])) async for reply in replies}
        doomed = {id}
        while more := {reply for reply, quoted in quotes.items() if reply not in doomed and quoted & doomed}:
            doomed |= more
        return sorted(doomed - {id})

    async def _help(self, _: str) -> str:
        return HELP


def new_session_id() -> str:
    """A session name that people can tell from others."""
    return f"chat-{datetime.now():%Y-%m-%d}-{new_id(system_clock())[-4:]}"


def _reason(hit: Hit) -> str:
    place = "best" if hit.place == 1 else f"{ordinal(hit.place)} best"
    return f"{one_line(hit.content, 300)}\n   {place} of what was found: {hit.explain()}\n   id {hit.id}"


def _known(fact: Fact) -> str:
    since = f", since {day_and_time(fact.valid_from)}" if fact.valid_from is not None else ""
    until = f", until {day_and_time(fact.valid_to)}" if fact.valid_to is not None else ""
    about = f"   from your profile: {fact.status}, confidence {fact.confidence:.2f}{since}{until}"
    said = f"\n   id {fact.source_message_id}, the message that said it" if fact.source_message_id else ""
    return f"{fact.key}: {one_line(fact.value, 300)}\n{about}\n   id {fact.id}{said}"


# ── In a terminal or from a script ───────────────────────────────────────────────────────────────


def talk(whose: Whose, session: str | None, agent: str, said: Sequence[str] | None, model: str | None) -> None:
    """Say these lines, or talk in the terminal until input ends; there, an error is shown and the talk goes on."""
    is_typed = said is None
    lines = _typed() if said is None else iter(said)
    endpoint, voice = open_voice(model, Settings.read(os.environ)) if model is not None else (None, None)
    # Lines are read outside the event loop, so that Ctrl-C ends the wait at once.
    with asyncio.Runner(loop_factory=loop_of(whose.url)) as runner:
        counted: dict[str, Any] = {"model": model.partition(":")[2]} if model is not None else {}
        memory = runner.run(Memory.open(whose.url, worker=False, **counted).start())
        try:
            owner = whose.of(memory)
            chat = owner.session(session if session is not None else new_session_id(), agent=agent)
            talk = Talk(memory, owner, chat, agent, model=voice)
            if is_typed:
                say(f"I remember what you tell me, in {place(whose.url)}. /help lists what else I can do.", style="dim")
            for line in takewhile("/quit".__ne__, map(_command_of, lines)):
                try:
                    runner.run(_hear(talk, line, whose.as_json, echo=not is_typed))
                except RecollectError as error:
                    if not is_typed:
                        raise
                    complain(plain(error))
        finally:
            runner.run(memory.close())
            if endpoint is not None:
                runner.run(endpoint.disconnect())


def open_voice(name: str, settings: Settings) -> tuple[Any, Executor]:
    """A model to chat with in a terminal, behind the endpoint in the settings."""
    kind, _, model = name.partition(":")
    if kind != "openai" or not model:
        raise ValidationError("must be openai:MODEL", field="model")
    agent = Agent(DEFAULT, url=settings.llm_url, key=settings.llm_key, model=model, timeout_s=settings.llm_timeout_s)
    module = endpoint_module()
    endpoint = module.open_endpoint(agent)
    return endpoint, module.FromModel(agent, endpoint)


def _command_of(line: str) -> str:
    """The command a line stands for, ignoring case and closing punctuation; any other line as it is."""
    word = line.lower().rstrip(".! ")
    return SPOKEN_COMMANDS.get(word, "/quit" if word == "/quit" else line)


def _typed() -> Iterator[str]:
    while True:
        try:
            line = input(PROMPT).strip()
        except EOFError:
            say()
            return
        except KeyboardInterrupt:
            say()
            raise
        if line:
            yield line


def piped() -> list[str]:
    """The lines on standard input when it is not a terminal; none if none arrive."""
    try:
        comes = bool(select.select([sys.stdin], [], [], PIPE_WAIT_S)[0])
    except (OSError, ValueError):
        comes = True  # not a system stream, so reading it does not block; or any stream on Windows
    raw = sys.stdin.buffer.read(SCRIPT_BYTES + 1) if comes else b""
    return _lines(raw) if raw.strip() else []


def script(name: str) -> list[str]:
    """The lines of a file, or of standard input (-)."""
    if name == "-":
        return _lines(sys.stdin.buffer.read(SCRIPT_BYTES + 1))
    with open_file(Path(name)) as file:
        return _lines(file.read(SCRIPT_BYTES + 1))


def _lines(raw: bytes) -> list[str]:
    text = raw.decode("utf-8-sig", "surrogateescape")  # editors on Windows often begin a file with a mark
    validate.text(text, "script", SCRIPT_BYTES)
    return [line.strip() for line in text.splitlines() if line.strip()]


async def _hear(talk: Talk, line: str, as_json: bool, *, echo: bool, at: datetime | None = None) -> None:
    """Handle one line from the user: a command or a turn."""
    if line.startswith("/"):
        output = await talk.command(line)
        if as_json:
            emit({"command": line.split(maxsplit=1)[0], "output": output})
        else:
            say(visible(output), style="dim")
        return
    if echo and not as_json:
        _spoken("you", line, "cyan")
    if _FORGET.match(line) and not is_question(line) and not takes_back(line):
        if as_json:
            emit({"hint": FORGET_HINT})
        else:
            say(FORGET_HINT, style="dim")
        return
    answer = await (talk.turn(line, at) if as_json or talk.model is None else _heard(talk, line))
    if not as_json and talk.model is None:
        _spoken("recollect", answer.text, "green")
    learned = await talk.take_in()
    if as_json:
        sources = list(answer.quotes)
        turn = {"session": talk.chat.id, "user": line, "assistant": answer.text, "sources": sources}
        emit(turn | ({"learned": learned} if learned else {}))
    elif learned:
        _spoken("", in_one_line(learned), "green", style="dim")


async def _heard(talk: Talk, line: str) -> Answer:
    """A turn whose answer is shown as it is spoken."""
    screen().print(Text("recollect › ", style="bold green"), end="")
    try:
        return await talk.turn(line, hear=lambda piece: screen().print(Text(visible(piece)), end="", soft_wrap=True))
    finally:
        say()


def _spoken(who: str, text: str, color: str, style: str = "") -> None:
    """Print who says what; further lines, and text that nobody says, go below. In a pipe, lines are not wrapped."""
    label, said = f"{who} ›" if who else "", visible(text)
    if not sys.stdout.isatty():
        first, *more = said.split("\n")
        for before, line in ((label, first), *(("", line) for line in more)):
            say(f"{before:>{SPEAKER_COLUMNS}} {line}".rstrip())
        return
    drawn = Table.grid(padding=(0, 1))
    drawn.add_column(justify="right", width=SPEAKER_COLUMNS)
    drawn.add_row(Text(label, style=f"bold {color}"), Text(said, style=style))
    screen().print(drawn)


# ── The scene ────────────────────────────────────────────────────────────────────────────────────


def play(whose: Whose, agent: str) -> None:
    """Play the scene: told on Monday, asked on Friday. Without a URL, in a temporary file."""
    with tempfile.TemporaryDirectory(prefix="recollect-") as folder:
        where = whose.url if whose.url is not None else Path(folder) / "scene.db"
        on_loop(_play(where, whose, agent), str(where))


async def _play(url: str | Path, whose: Whose, agent: str) -> None:
    monday = _last_monday(datetime.now().astimezone())
    async with Memory.open(url, worker=False) as memory:
        owner = whose.of(memory)
        for days, name, lines in SCENE:
            begin = monday + timedelta(days=days)
            talk = Talk(memory, owner, owner.session(f"{name}-{begin:%Y-%m-%d}", agent=agent), agent)
            if not whose.as_json:
                say()
                screen().print(Rule(f"{begin:%A} {begin.day} {begin:%B}", style="dim"))
            await _recite(talk, lines, begin, whose.as_json)
        if not whose.as_json:
            context = await talk.chat.get_context(SCENE[-1][2][-1])
            say(f"\nWhat a chat model would be given for the last question, in {context.tokens} tokens:\n")
            say(visible(context.system), style="dim")


async def _recite(talk: Talk, lines: Iterable[str], begin: datetime, as_json: bool) -> None:
    for minute, line in enumerate(lines):
        await _hear(talk, line, as_json, echo=True, at=begin + timedelta(minutes=minute))


def _last_monday(now: datetime) -> datetime:
    """Nine o'clock on the most recent Monday whose Friday has come as well."""
    friday = now - timedelta(days=(now.weekday() - 4) % 7)
    return (friday - timedelta(days=4)).replace(hour=9, minute=0, second=0, microsecond=0)
