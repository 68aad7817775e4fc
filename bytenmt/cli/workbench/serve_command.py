"""The command `serve`. Heavy modules are imported inside it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bytenmt.cli.console import Command, detail
from bytenmt.cli.options import COUNT, FILE, options, setting_options, within
from bytenmt.cli.progress import Console
from bytenmt.config.bounds import THREADS, Bounds
from bytenmt.decoding.setting_table import AUTO, KEPT, KEPT_BY_SERVER, PRECISIONS
from bytenmt.errors import BytenmtError

if TYPE_CHECKING:
    from bytenmt.decoding.constraints.glossary import Glossary, Term
    from bytenmt.decoding.loading import Runtime
    from bytenmt.decoding.translator import Translator
    from bytenmt.language_profile import LanguageProfile
    from bytenmt.serve.languages import Direction
    from bytenmt.serve.worker import EngineKey, Worker

LOOPBACK = "127.0.0.1"
PACKAGES = ("starlette", "uvicorn", "httptools", "websockets", "python_multipart")

TIMEOUT = within(Bounds(1, 86_400))
LIMITS = options(
    click.option("--max-body", type=COUNT, default=2_000_000, show_default=True, help="Bytes of a request."),
    click.option(
        "--max-characters", type=COUNT, default=20_000, show_default=True, help="Of the texts of a request."
    ),
    click.option(
        "--max-queue",
        type=COUNT,
        default=256,
        show_default=True,
        help="Requests that wait or are decoded; more are told to come again (429).",
    ),
    click.option(
        "--max-queue-per-client",
        type=COUNT,
        default=64,
        show_default=True,
        help="The same of one client address, and of one API key.",
    ),
    click.option(
        "--patience",
        type=within(Bounds(1, 3600)),
        default=30,
        show_default=True,
        help="Seconds that a client has to send a request, and that a graceful end may take.",
    ),
    click.option(
        "--document-seconds",
        type=within(Bounds(1, 3600)),
        default=20,
        show_default=True,
        help="CPU seconds in which a file or page must be read, and as many to write its translation.",
    ),
    click.option(
        "--document-memory",
        type=COUNT,
        default=1_000_000_000,
        show_default=True,
        help="Bytes of memory that either of these may take.",
    ),
    click.option(
        "--send-timeout",
        type=TIMEOUT,
        default=30,
        show_default=True,
        help="Seconds after which a client that does not read its answer is cut off.",
    ),
    click.option(
        "--compute-timeout",
        type=TIMEOUT,
        default=300,
        show_default=True,
        help="Seconds that the translation of a request may take, waiting included (503).",
    ),
    click.option(
        "--request-timeout",
        type=TIMEOUT,
        default=600,
        show_default=True,
        help="Seconds from a request's headers to the end of its answer.",
    ),
)
ACCESS = options(
    click.option("--api-keys", type=FILE, help="A file of keys, one a line, of which a request needs one."),
    click.option(
        "--allowed-host",
        "allowed_hosts",
        metavar="NAME",
        multiple=True,
        help="A name that the server is reached by, checked against the Host header; * is any. By default"
        " loopback names alone where it listens at a loopback address, elsewhere any.",
    ),
    click.option(
        "--allowed-origin",
        "allowed_origins",
        metavar="ORIGIN",
        multiple=True,
        help="A site, as https://example.org, whose pages may use the server (CORS); * is any. By default"
        " none but the server's own page.",
    ),
    click.option(
        "--trusted-proxy",
        "trusted_proxies",
        metavar="ADDRESS",
        multiple=True,
        help="The address or network of a proxy whose X-Forwarded-For header tells the client's address.",
    ),
)
SEARCH = options(
    click.option("--precision", type=click.Choice([AUTO, *PRECISIONS]), default=AUTO, help="Of the weights."),
    click.option(
        "--threads", type=within(THREADS), help="CPU threads of each direction; default: as there are cores."
    ),
    setting_options("search"),
)


@click.command(cls=Command)
@click.option(
    "-m",
    "--model",
    "models",
    metavar="PAIR=RUN",
    multiple=True,
    required=True,
    help="A direction and its run, as en-de=RUN; several of one direction decide together.",
)
@click.option("--host", default=LOOPBACK, show_default=True, help="The address to listen at.")
@click.option("--port", type=within(Bounds(0, 65535)), default=5000, show_default=True, help="0: a free one.")
@click.option(
    "--suggestions", type=FILE, help="A folder that keeps what is sent to /suggest, a TSV a direction."
)
@click.option(
    "--detect-text",
    "samples",
    metavar="CODE=FILE",
    multiple=True,
    help="A text by which a language is told from others of its script; default: the profile in the model.",
)
@click.option(
    "--keep",
    default=",".join(KEPT_BY_SERVER),
    show_default=True,
    metavar=",".join(KEPT),
    help="What translations have exactly as their source, unless a request says otherwise; '' for nothing.",
)
@click.option(
    "--glossary",
    "glossaries",
    metavar="PAIR=FILE",
    multiple=True,
    help="Terms of a direction, as of translate, as en-de=FILE; a request's own terms come first.",
)
@click.option(
    "--log-format", type=click.Choice(["text", "json"]), default="text", help="Of the lines on stderr."
)
@click.option("--log-requests/--no-log-requests", default=True, help="A line for each request.")
@ACCESS
@LIMITS
@SEARCH
def serve(
    models: tuple[str, ...],
    host: str,
    port: int,
    suggestions: Path | None,
    samples: tuple[str, ...],
    keep: str,
    glossaries: tuple[str, ...],
    log_format: str,
    log_requests: bool,
    api_keys: Path | None,
    allowed_hosts: tuple[str, ...],
    allowed_origins: tuple[str, ...],
    trusted_proxies: tuple[str, ...],
    max_body: int,
    max_characters: int,
    max_queue: int,
    max_queue_per_client: int,
    patience: int,
    document_seconds: int,
    document_memory: int,
    send_timeout: int,
    compute_timeout: int,
    request_timeout: int,
    precision: str,
    threads: int | None,
    **search: Any,
) -> None:
    """Translate for programs and browsers, over HTTP.

    LibreTranslate's API, and a page at /.

    Languages that no model joins directly are joined over others. SIGTERM ends it when what was accepted is
    answered; SIGHUP has it read models, glossaries and keys again, while it answers. Every option can be
    given by an environment variable, --max-queue by BYTENMT_SERVE_MAX_QUEUE; several values have spaces
    between them. It listens on this machine alone unless --host says otherwise: give --api-keys then, and put
    a proxy that speaks TLS before it, named by --trusted-proxy.
    """
    _check_packages()
    from bytenmt.decoding.cpu.compilation import stop_child
    from bytenmt.serve.detect import Detector
    from bytenmt.serve.explain import Explainer
    from bytenmt.serve.http.access import AccessPolicy, is_loopback
    from bytenmt.serve.http.app import LoadedModels, Server
    from bytenmt.serve.http.logs import ServerLog
    from bytenmt.serve.http.server import ignore_hang_ups, listening, run
    from bytenmt.serve.languages import Languages
    from bytenmt.serve.limits import ApiKeys, Limits
    from bytenmt.serve.service import Service
    from bytenmt.serve.suggestions import Suggestions

    directions = _directions(models)
    taken = Suggestions(suggestions) if suggestions else None
    texts = _named(samples, "--detect-text", "ko=FILE")
    limits = Limits(
        body=max_body,
        characters=max_characters,
        queue=max_queue,
        queue_per_client=min(max_queue_per_client, max_queue),
        patience=patience,
        send_seconds=send_timeout,
        compute_seconds=compute_timeout,
        request_seconds=request_timeout,
        document_seconds=document_seconds,
        document_memory=document_memory,
    )
    _check_access(allowed_origins, trusted_proxies)
    kept = _span_classes(keep)
    log = ServerLog(Console(), log_format, log_requests)

    def load() -> LoadedModels:
        """Read all files: models, glossaries and keys. Called again by SIGHUP."""
        keys = ApiKeys.from_file(api_keys) if api_keys else ApiKeys()
        terms = _glossaries(glossaries, directions)
        workers, runtimes = _workers(directions, precision, threads, search, kept)
        detector = Detector(Languages(list(workers)).all, _profiles(runtimes, texts))
        return LoadedModels(workers, detector, terms, keys, Explainer(runtimes))

    ignore_hang_ups()
    with listening(host, port) as listener:
        loaded = load()
        service = Service(loaded.workers, loaded.detector, limits, keep=kept, glossaries=loaded.glossaries)
        access = AccessPolicy(allowed_hosts, allowed_origins, is_loopback(listener.getsockname()[0]))
        server = Server(
            service,
            log,
            loaded.keys,
            taken,
            loaded.explain,
            access=access,
            trusted_proxies=trusted_proxies,
            load=load,
        )
        try:
            run(server, listener, patience)
        finally:
            stop_child()


for _parameter in serve.params:
    if isinstance(_parameter, click.Option):
        _name = max(_parameter.opts, key=len).lstrip("-")
        _parameter.envvar = f"BYTENMT_SERVE_{_name.replace('-', '_').upper()}"


def _check_packages() -> None:
    """Raise BytenmtError if a package of the extra is missing."""
    from importlib.util import find_spec

    missing = [name for name in PACKAGES if find_spec(name) is None]
    if missing:
        raise BytenmtError(f"serve needs {' and '.join(missing)}: pip install 'bytenmt[serve]'")


def _check_access(origins: Sequence[str], proxies: Sequence[str]) -> None:
    """Raise BytenmtError for a text that is not an origin, or not an address or network."""
    from ipaddress import ip_network
    from urllib.parse import urlsplit

    for origin in origins:
        parts = urlsplit(origin)
        if origin != "*" and (not parts.scheme or not parts.netloc or origin.count("/") != 2):
            raise BytenmtError(f"--allowed-origin {origin}: expected a site as https://example.org, or *")
    for proxy in proxies:
        try:
            ip_network(proxy)
        except ValueError as error:
            raise BytenmtError(f"--trusted-proxy {proxy}: {error}") from None


def _named(values: Sequence[str], option: str, example: str) -> list[tuple[str, Path]]:
    """Split each value NAME=PATH."""
    found = []
    for one in values:
        name, sign, path = one.partition("=")
        if not name or not path:
            raise BytenmtError(f"{option} {one}: expected {example}")
        found.append((name, Path(path)))
    return found


def _directions(models: Sequence[str]) -> dict[Direction, list[Path]]:
    """Return the runs of each direction."""
    from bytenmt.serve.languages import Direction

    found: dict[Direction, list[Path]] = {}
    for name, path in _named(models, "-m", "en-de=RUN"):
        found.setdefault(Direction.parse(name), []).append(path)
    return found


def _span_classes(names: str) -> tuple[str, ...]:
    """Split names of span classes at commas. Raises BytenmtError for an unknown one."""
    kept = {name.strip() for name in names.split(",")} - {""}
    for name in sorted(kept - {*KEPT}):
        raise BytenmtError(f"--keep {name}: expected some of {', '.join(KEPT)}")
    return tuple(sorted(kept))


def _glossaries(values: Sequence[str], directions: Collection[Direction]) -> dict[Direction, Glossary]:
    """Return the glossary of each direction; several files of one direction are merged.

    Raises BytenmtError.
    """
    from bytenmt.decoding.constraints.glossary import Glossary
    from bytenmt.serve.languages import Direction

    found: dict[Direction, list[Term]] = {}
    for name, path in _named(values, "--glossary", "en-de=FILE"):
        direction = Direction.parse(name)
        if direction not in directions:
            raise BytenmtError(f"--glossary {name}: no -m {direction}=RUN, the terms would be ignored")
        found.setdefault(direction, []).extend(Glossary.from_file(path).terms())
    return {direction: Glossary.from_terms(terms) for direction, terms in found.items()}


def _workers(
    directions: Mapping[Direction, Sequence[Path]],
    precision: str,
    threads: int | None,
    search: Mapping[str, Any],
    keep: tuple[str, ...],
) -> tuple[dict[Direction, Worker], dict[Direction, Runtime]]:
    """Return a worker thread for each direction, ready to translate, and its loaded models."""
    from bytenmt.cli.decoding_args import settings
    from bytenmt.decoding.engine_selection import n_cores
    from bytenmt.decoding.engines import MAX_THREADS
    from bytenmt.decoding.interface import EngineSpec
    from bytenmt.decoding.loading import load_runs
    from bytenmt.evaluation.judge import FLAG_ABOVE, Judge
    from bytenmt.serve.worker import Worker

    given = {name: value for name, value in search.items() if value is not None}
    settings(given)  # what does not go together is told before anything is loaded
    # Threads that meet hundreds of times a step wait for each other where one has no core of its own, and one
    # core answers the clients.
    threads = threads or max(1, min(MAX_THREADS, n_cores() // (len(directions) + 1)))
    workers, runtimes = {}, {}
    with ExitStack() as stack:  # what was loaded before another model fails does not stay
        for direction, paths in directions.items():
            spec = EngineSpec(AUTO, "cpu", precision, threads)
            runtime = load_runs(paths, spec, Console(), at_once=True)
            if not runtime.has_source:
                raise BytenmtError(f"{paths[0]} was trained without a source: it cannot translate")
            runtimes[direction] = runtime
            judge = Judge.from_runtime(runtime, default=FLAG_ABOVE)
            workers[direction] = Worker(_maker(runtime, given), str(direction), judge)
            stack.callback(workers[direction].finish)
            _warm(workers[direction], keep)
            detail(f"{direction}: {', '.join(map(str, paths))}")
        stack.pop_all()
    return workers, runtimes


def _maker(runtime: Runtime, search: Mapping[str, Any]) -> Callable[[EngineKey], Translator]:
    """Return a function that makes Translators of a model for a kind of jobs."""
    from bytenmt.cli.decoding_args import settings
    from bytenmt.decoding.constraints.glossary import Glossary
    from bytenmt.decoding.translator import Translator

    def make(kind: EngineKey) -> Translator:
        more: dict[str, Any] = {}
        if kind.n_best > 1:
            more = {"n_best": kind.n_best, "beam": max(kind.n_best, search.get("beam") or 1)}
        if kind.keep is not None:
            more |= {"keep": kind.keep, "glossary": Glossary.from_terms(())}  # a job has its own terms
        return Translator.from_runtime(runtime, settings({**search, **more}))

    return make


def _warm(worker: Worker, keep: tuple[str, ...]) -> None:
    """Translate a line as most requests will, so that the first client need not wait and errors show at
    the start.
    """
    from queue import SimpleQueue

    from bytenmt.decoding.constraints.constraint_spec import ConstraintSpec
    from bytenmt.serve.worker import Job

    outcomes: SimpleQueue[Any] = SimpleQueue()
    worker.submit(Job([b"1"], outcomes.put, rules=ConstraintSpec(keep) if keep else None))
    outcome = outcomes.get()
    if isinstance(outcome, Exception):
        raise outcome


def _profiles(
    runtimes: Mapping[Direction, Runtime], texts: Sequence[tuple[str, Path]]
) -> dict[str, LanguageProfile]:
    """Return a profile of each language that has one: from a text of --detect-text, or from a model."""
    from bytenmt.language_profile import LanguageProfile

    found: dict[str, LanguageProfile] = {}
    for language, path in texts:
        with open(path, "rb") as file:
            profile = LanguageProfile.from_lines(file)
        if profile is None:
            raise BytenmtError(f"--detect-text {language}={path}: the file has no text")
        found[language] = profile
    for direction, runtime in runtimes.items():
        for run in runtime.runs:
            facts = run.facts
            for language, text in zip(direction, (facts.source_profile, facts.target_profile), strict=True):
                if not text or language in found:
                    continue
                try:
                    found[language] = LanguageProfile.from_text(text)
                except ValueError as error:
                    raise BytenmtError(f"{run.file}: {error}") from None
    return found
