# One image for the collector, the worker and the dashboard; the command chooses.
FROM python:3.12-slim-bookworm AS build
RUN pip install --no-cache-dir "uv>=0.8,<1"
WORKDIR /src
ENV UV_PROJECT_ENVIRONMENT=/opt/evalspan UV_COMPILE_BYTECODE=1 UV_LINK_MODE=copy
COPY pyproject.toml uv.lock README.md LICENSE ./
COPY instrumentation instrumentation
COPY collector collector
COPY evaluators evaluators
COPY dashboard dashboard
RUN uv sync --frozen --no-dev --extra server --no-editable

FROM python:3.12-slim-bookworm
RUN useradd --create-home --uid 10001 evalspan && install -d -o evalspan -m 0700 /var/lib/evalspan
COPY --from=build /opt/evalspan /opt/evalspan
ENV PATH=/opt/evalspan/bin:$PATH EVALSPAN_DATA=/var/lib/evalspan PYTHONUNBUFFERED=1
USER evalspan
VOLUME /var/lib/evalspan
ENTRYPOINT ["evalspan"]
CMD ["up"]
