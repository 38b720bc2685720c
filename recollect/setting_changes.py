"""The settings that `Memory.open` takes by name besides its own parameters, for editors and type checkers.

Only they read it, and a test keeps it equal to the settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict


class SettingChanges(TypedDict, total=False):
    """Settings by name, such as `window_turns=20`; `Settings` says what each is for."""

    layers: Mapping[str, str]
    fallback: str
    index: str
    embedder_before: str
    embedder_url: str
    embedder_key: str
    models: str
    quality: str
    language: str
    model: str
    llm_url: str
    llm_key: str
    llm_timeout_s: float
    llm_tokens_per_day: int
    llm_at_once: int
    llm_batch_s: float
    llm_rewrite: bool
    worker: bool
    busy_timeout_s: float
    conversation_days: int | None
    working_hours: int
    lives: Mapping[str, str]
    window_strategy: str
    window_messages: int
    window_turns: int
    window_tokens: int
    summary_tokens: int
    learn: bool
    masking: str
    episode_idle_minutes: int
    lease_s: float
    poll_s: float
    claim_jobs: int
    job_timeout_s: float
    job_attempts_max: int
    retry_s: float
    index_mib: int
    index_awake: int | None
    learnings_in_prompt: int
    learnings_above: float
    memories_max: int
    prune_score: float
    prune_age_days: int
    learnings_max: int
    prune_learning_score: float
    consolidate: bool
    prune: bool
    host: str
    port: int
    workers: int
    console_secret: str
    requests_per_day: int | None
    memories_per_day: int | None
    bytes_per_day: int | None
    tracing: bool
    requests_per_minute: int
