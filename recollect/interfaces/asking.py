"""Commands that talk and ask: `chat`, `search`, `context`."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from recollect.errors import ValidationError
from recollect.interfaces import chat as talking
from recollect.interfaces.options import Layer, Where, filter_of, object_of
from recollect.interfaces.output import NOT_FOUND, complain, day_and_time, emit, entries, one_line, plural, say, visible
from recollect.interfaces.quoting import NEAR, excerpt
from recollect.interfaces.whose import Whose
from recollect.records import FITS, Hit
from recollect.session import Session
from recollect.user import User

if TYPE_CHECKING:
    from recollect.context import Context

SHOWN_CHARACTERS = 300
"""How much of a hit is shown: three or four lines."""

At = Annotated[str | None, typer.Option(metavar="TIME", help="Time of the question; else now.", show_default=False)]
Quality = Annotated[
    str | None, typer.Option(metavar="fast|best", help="best reorders the first hits with the reranker.")
]


def chat(
    whose: Whose,
    session: Annotated[str | None, typer.Option(help="Continue this session; else start a new one.")] = None,
    agent: Annotated[str, typer.Option(help="Name of the assistant.")] = "",
    script: Annotated[
        str | None, typer.Option(metavar="FILE", help="Say the lines of this file; - reads standard input.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(metavar="openai:NAME", help="Answer with this model, at llm_url with llm_key.")
    ] = None,
) -> None:
    """Talk to an assistant that answers from memory; without a terminal or input, a short demo plays.

    Example: recollect chat --session monday
    """
    said = talking.script(script) if script is not None else None if sys.stdin.isatty() else talking.piped()
    if script is None and said == [] and (session is not None or model is not None):
        raise ValidationError("standard input has no lines to say", field="chat")
    if script is None and said == []:
        talking.play(whose, agent)
    else:
        talking.talk(whose, session, agent, said, model)


def search(
    whose: Whose,
    query: Annotated[str, typer.Argument(help="What to look for.")],
    layer: Layer = None,
    where: Where = None,
    limit: Annotated[int, typer.Option(help="How many at most, 1 to 1000.")] = 5,
    at: At = None,
    quality: Quality = None,
    everything: Annotated[bool, typer.Option("--all", help="Also show weak matches.")] = False,
    explain: Annotated[bool, typer.Option("--explain", help="Explain how each was found.")] = False,
) -> None:
    """Find the memories that answer a question best.

    Weak matches are counted but not shown, unless there is nothing better. JSON has them all, with relevance.

    Example: recollect search "which theme" --layer long_term --explain
    """
    test = filter_of(where)
    hits = whose.ask(
        lambda who: who.search_memory(query, layer=layer or None, where=test, limit=limit, at=at, quality=quality)
    )
    if whose.as_json:
        emit([hit.to_dict() for hit in hits])
    elif hits:
        _show_hits(query, hits, explain, everything)
    else:
        say(f"Nothing found for {whose.in_words}")
    if not hits:
        raise typer.Exit(NOT_FOUND)


def _show_hits(query: str, hits: Sequence[Hit], explain: bool, everything: bool) -> None:
    """Show the hits, and say in words how close they are: what answers nothing must not look like an answer."""
    near = [hit for hit in hits if hit.relevance >= NEAR]
    if not near:
        say("Nothing relevant is remembered. The closest, all weak matches:")
    elif all(hit.relevance < FITS for hit in near):
        say("Nothing fits well. This is the closest:")
    shown = hits if everything or not near else near
    entries([(hit.place, _hit_text(query, hit, explain)) for hit in shown])
    if len(shown) < len(hits):
        more = len(hits) - len(shown)
        say(f"{more:,} more found, only weakly related; --all shows {'it' if more == 1 else 'them'}.", style="dim")


def _hit_text(query: str, hit: Hit, explain: bool) -> Text:
    """The memory first, of a long one what was asked for, then where it comes from and how it was found."""
    record = hit.record
    source = visible(str(record.data.get("role") or record.layer))
    where = f"{source} in {visible(record.scope.session)}" if record.scope.session else source
    more = f"relevance {hit.relevance:.0%}" + (f", id {record.id}\n{hit.explain()}" if explain else "")
    text = Text(one_line(excerpt(query, record.content, SHOWN_CHARACTERS), SHOWN_CHARACTERS))
    return text.append(f"\n{day_and_time(record.when)}, {where}, {more}", style="dim")


def context(
    whose: Whose,
    query: Annotated[str, typer.Argument(help="The question the context is for.")],
    session: Annotated[str | None, typer.Option(help="Include the recent messages of this session.")] = None,
    agent: Annotated[str, typer.Option(help="Include this assistant's instructions and working state.")] = "",
    max_tokens: Annotated[int, typer.Option(help="At most this many tokens.")] = 4_000,
    layer: Layer = None,
    policy: Annotated[
        str | None,
        typer.Option(
            metavar="JSON", help='What it is made of, such as {"sections": ["profile"], "shares": {"recent": 0.3}}.'
        ),
    ] = None,
    at: At = None,
    quality: Quality = None,
    explain: Annotated[bool, typer.Option("--explain", help="Say what is in it, what was left out, and why.")] = False,
) -> None:
    """Show what a chat model would be given for a question.

    Example: recollect context "Which theme should I use?" --max-tokens 2000 --explain
    """
    chosen = object_of(policy, "policy")
    if agent and session is None:
        raise ValidationError("belongs to a session; give --session too", field="agent")

    def build(who: User) -> Awaitable[Context]:
        asked: User | Session = who if session is None else who.session(session, agent=agent)
        return asked.get_context(
            query, max_tokens=max_tokens, layers=layer or None, policy=chosen, at=at, quality=quality
        )

    built = whose.ask(build)
    if whose.as_json:
        emit(built.to_dict())
    else:
        _show_context(built, whose.in_words, max_tokens, explain)


def _show_context(built: Context, who: str, max_tokens: int, explain: bool) -> None:
    for message in built.messages:
        say(f"{message['role']}:", style="bold")
        say(visible(str(message["content"])) + "\n")
    if built.report.left_out and not built.report.kept:
        found = plural(len(built.report.left_out), "item")
        complain(f"nothing fits into {max_tokens} tokens, {found} left out; raise --max-tokens")
    elif not built.sections:
        complain(f"nothing relevant is remembered for {who}")
    if explain:
        say(visible(built.explain()), style="dim")
