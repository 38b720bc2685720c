# Recollect as a container: docker build -t recollect . ; docs/how-to/deployment.md explains how to run it.
FROM python:3.13-slim AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE NOTICE ./
COPY recollect recollect
RUN pip install --no-cache-dir --prefix /installed '.[server,mcp,postgres,redis,cosmos,openai,otel,tokens]'

FROM python:3.13-slim
RUN groupadd --gid 10001 recollect && useradd --uid 10001 --gid 10001 --home-dir /data --no-create-home recollect \
    && install --directory --owner 10001 --group 10001 --mode 700 /data
COPY --from=build /installed /usr/local
USER 10001
WORKDIR /data
VOLUME /data
# A file in the volume, unless RECOLLECT_URL says otherwise.
ENV RECOLLECT_URL=sqlite:////data/recollect.db \
    RECOLLECT_HOST=0.0.0.0 \
    RECOLLECT_PORT=8765 \
    PYTHONUNBUFFERED=1
EXPOSE 8765
# The server takes less than ten seconds to stop; allow it that long (docker stop waits ten).
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=15s --timeout=5s --start-period=20s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8765/ready', timeout=4)"]
ENTRYPOINT ["recollect"]
CMD ["serve"]
