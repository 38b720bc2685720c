"""Traces for OpenTelemetry: one span for each request, and beneath it one for each verb of the store.

Spans name routes and verbs, never users or what was said. The standard `OTEL_*` variables, such as
OTEL_EXPORTER_OTLP_ENDPOINT, say where they go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.propagate import extract
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanKind, StatusCode

from recollect import __version__


class Answer:
    """What is known about a request once it is answered."""

    route = ""
    status = 0


class Tracing:
    """Opens spans. Without a processor they go to the endpoint named in the environment."""

    def __init__(self, processor: SpanProcessor | None = None) -> None:
        self._provider = TracerProvider(resource=Resource.create({SERVICE_NAME: "recollect"}))
        self._provider.add_span_processor(processor or BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer("recollect.server", __version__)

    @contextmanager
    def request(self, method: str, headers: Mapping[str, str], request_id: str) -> Iterator[Answer]:
        """A span around a request, beneath the caller's own if the headers name one."""
        answer = Answer()
        with self._tracer.start_as_current_span(method, extract(headers), SpanKind.SERVER) as span:
            try:
                yield answer
            finally:
                span.update_name(f"{method} {answer.route}")
                span.set_attributes(
                    {
                        "http.request.method": method,
                        "http.route": answer.route,
                        "http.response.status_code": answer.status,
                        "recollect.request_id": request_id,
                    }
                )
                if answer.status >= 500:
                    span.set_status(StatusCode.ERROR)

    @contextmanager
    def verb(self, name: str) -> Iterator[None]:
        """A span around a verb of the store. An error message may hold content, so only the error's type is kept."""
        with self._tracer.start_as_current_span(name, record_exception=False, set_status_on_exception=False) as span:
            try:
                yield
            except BaseException as error:
                span.set_attribute("error.type", type(error).__name__)
                raise

    def close(self) -> None:
        """Send the remaining spans."""
        self._provider.shutdown()
