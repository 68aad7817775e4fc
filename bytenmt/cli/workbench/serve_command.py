"""The command `serve`. Heavy modules are imported inside it."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bytenmt.cli.console import Command, detail
from bytenmt.cli.options import COUNT, FILE, headed, options, setting_options, within
from bytenmt.cli.progress import Console
from bytenmt.config.bounds import THREADS, Bounds
from bytenmt.decoding.setting_table import AUTO, KEPT, KEPT_BY_SERVER, PRECISIONS, SPEED
from bytenmt.errors import BytenmtError

if TYPE_CHECKING:
    from bytenmt.decoding.constraints.glossary import Glossary, Term
    from bytenmt.decoding.loading import Runtime
    from bytenmt.decoding.translator import Translator
    from bytenmt.language_profile import LanguageProfile
    from bytenmt.serve.languages import Direction
    from bytenmt.serve.worker import EngineKey, Worker

LOOPBACK = "127.0.0.1"
PACKAGES = ("starlette", "uvicorn", "httptools", "python_multipart")

TIMEOUT = within(Bounds(1, 86_400))
LIMITS = headed(
    "Limits",
    click.option(
        "--max-body",
        type=COUNT,
        default=2_000_000,
        show_default=True,
        help="Maximum size of a request in bytes; larger ones get 413.",
    ),
    click.option(
        "--max-characters",
        type=COUNT,
        default=20_000,
        show_default=True,
        help="Maximum number of characters of the texts of a request; longer ones get 413.",
    ),
    click.option(
        "--max-queue",
        type=COUNT,
        default=256,
        show_default=True,
        help="Maximum number of requests that wait or are decoded, all clients together; more get 429.",
    ),
    click.option(
        "--max-queue-per-client",
        type=COUNT,
        default=64,
        show_default=True,
        help="Maximum number of requests that wait or are decoded of one client address or API key; more"
        " get 429.",
    ),
    click.option(
        "--patience",
        type=within(Bounds(1, 3600)),
        default=30,
        show_default=True,
        help="Seconds a client may take to send a request (then 408), and a graceful shutdown may take.",
    ),
    click.option(
        "--document-seconds",
        type=within(Bounds(1, 3600)),
        default=20,
        show_default=True,
        help="CPU seconds for parsing a document or HTML page, and the same again for writing its"
        " translation.",
    ),
    click.option(
        "--document-memory",
        type=COUNT,
        default=1_000_000_000,
        show_default=True,
        help="Bytes of memory for parsing a document or HTML page, or for writing its translation.",
    ),
    click.option(
        "--send-timeout",
        type=TIMEOUT,
        default=30,
        show_default=True,
        help="Seconds after which a client that does not read its response is disconnected.",
    ),
    click.option(
        "--compute-timeout",
        type=TIMEOUT,
        default=300,
        show_default=True,
        help="Seconds the translation of a request may take, waiting included; then it gets 503.",
    ),
    click.option(
        "--request-timeout",
        type=TIMEOUT,
        default=600,
        show_default=True,
        help="Seconds from the headers of a request to the end of its response.",
    ),
)
ACCESS = headed(
    "Access",
    click.option(
        "--api-keys",
        type=FILE,
        help="File of API keys, one per line; every request must then carry one of them.",
    ),
    click.option(
        "--allowed-host",
        "allowed_hosts",
        metavar="NAME",
        multiple=True,
        help="Host name under which the server may be reached, compared with the Host header; * is any; may"
        " be repeated (default: loopback names if --host is a loopback address, otherwise any).",
    ),
    click.option(
        "--allowed-origin",
        "allowed_origins",
        metavar="ORIGIN",
        multiple=True,
        help="Web site such as https://example.org whose pages may use the server (CORS); * is any; may be"
        " repeated (default: only the server's own page).",
    ),
    click.option(
        "--trusted-proxy",
        "trusted_proxies",
        metavar="ADDRESS",
        multiple=True,
        help="Address or network of a proxy whose X-Forwarded-For header is trusted for the client's"
        " address; may be repeated (default: none).",
    ),
)


class EmptyIsAValue(click.Option):
    """An option whose environment variable may be empty; click takes an empty one for a missing one."""

    def resolve_envvar_value(self, ctx: click.Context) -> str | None:
        return os.environ.get(str(self.envvar))


SEARCH = options(
    setting_options("search"),
    headed(
        "Search",
        click.option(
            "--reverse",
            is_flag=True,
            help="Have the model of the opposite direction, where it is served, rank the hypotheses, too:"
            " better translations in two to three times the time. Needs --beam-size 2 or more.",
        ),
    ),
    headed(
        SPEED,
        click.option(
            "--precision",
            type=click.Choice([AUTO, *PRECISIONS]),
            default=AUTO,
            help="Precision of the weights; auto is the precision of the file (default: auto).",
        ),
        click.option(
            "--threads",
            type=within(THREADS),
            help="Number of CPU threads per direction (default: chosen by the number of cores).",
        ),
    ),
)


@click.command(cls=Command)
@click.option(
    "-m",
    "--model",
    "models",
    metavar="PAIR=RUN",
    multiple=True,
    required=True,
    help="Translation direction and its model, such as en-de=RUN; repeat it for more directions. Several"
    " models of one direction decode as an ensemble.",
)
@click.option("--host", default=LOOPBACK, show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=within(Bounds(0, 65535)),
    default=5000,
    show_default=True,
    help="Port to listen on; 0 is any free port.",
)
@click.option(
    "--suggestions",
    type=FILE,
    help="Folder in which suggestions sent to /suggest are stored, one TSV file per direction.",
)
@click.option(
    "--detect-text",
    "samples",
    metavar="CODE=FILE",
    multiple=True,
    help="Sample text of a language for language detection (default: the language profile in the model).",
)
@click.option(
    "--keep",
    cls=EmptyIsAValue,
    default=",".join(KEPT_BY_SERVER),
    show_default=True,
    metavar=",".join(KEPT),
    help="Classes of spans that are copied unchanged from the source to the translation, separated by commas,"
    " unless a request has its own `keep`; '' is none.",
)
@click.option(
    "--glossary",
    "glossaries",
    metavar="PAIR=FILE",
    multiple=True,
    help="Glossary file of a direction, such as en-de=FILE, in the format of `translate --glossary`; the"
    " terms of a request take precedence.",
)
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    help="Format of the log on stderr (default: text).",
)
@click.option(
    "--log-requests/--no-log-requests", default=True, help="Log a line for each request (default: yes)."
)
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
    """Serve translations over HTTP.

    Offers LibreTranslate's API and a web page at /.

    Directions without a model of their own are translated through other languages. SIGTERM stops the server
    after all accepted requests are answered; SIGHUP reloads models, glossaries and keys without interruption.
    Every option has an environment variable, for example BYTENMT_SERVE_MAX_QUEUE for --max-queue; several
    values are separated by spaces. The server listens on this machine only unless --host says otherwise. To
    make it public, require --api-keys and put a TLS proxy in front of it, named by --trusted-proxy.
    """
    _check_packages()
    from bytenmt.decoding.cpu.compilation import stop_child
    from bytenmt.serve.detect import Detector
    from bytenmt.serve.http.access import AccessPolicy, is_loopback
    from bytenmt.serve.http.app import LoadedModels, Server
    from bytenmt.serve.http.logs import ServerLog, is_stderr_ready
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
    log = ServerLog(Console(), log_format, log_requests, is_stderr_ready)

    def load() -> LoadedModels:
        """Read all files: models, glossaries and keys. Called again by SIGHUP."""
        keys = ApiKeys.from_file(api_keys) if api_keys else ApiKeys()
        terms = _glossaries(glossaries, directions)
        workers, runtimes = _workers(directions, precision, threads, search, kept)
        detector = Detector(Languages(list(workers)).all, _profiles(runtimes, texts))
        return LoadedModels(workers, detector, terms, keys)

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
            raise BytenmtError(
                f"--allowed-origin {origin}: expected a web site such as https://example.org, or *"
            )
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
            raise BytenmtError(
                f"--glossary {name}: there is no model of this direction: add -m {direction}=RUN, or drop"
                f" the glossary"
            )
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
    from bytenmt.serve.languages import Direction
    from bytenmt.serve.worker import Worker

    given = {name: value for name, value in search.items() if value is not None}
    settings(given)  # reports contradicting options before anything is loaded
    opposite: dict[Direction, Path] = {}
    if search.get("reverse"):
        pairs = ((one, Direction(one.target, one.source)) for one in directions)
        opposite = {one: directions[other][0] for one, other in pairs if other in directions}
        if not opposite:
            raise BytenmtError("--reverse would be ignored: no two models translate in opposite directions")
    # Threads synchronise hundreds of times per decode step, so each needs a core of its own; one core is left
    # for the HTTP server.
    threads = threads or max(1, min(MAX_THREADS, n_cores() // (len(directions) + 1)))
    workers, runtimes = {}, {}
    with ExitStack() as stack:  # what was loaded before another model fails does not stay
        for direction, paths in directions.items():
            spec = EngineSpec(AUTO, "cpu", precision, threads, reverse=opposite.get(direction))
            runtime = load_runs(paths, spec, Console(), at_once=True)
            if not runtime.has_source:
                raise BytenmtError(
                    f"{paths[0]} is a language model and cannot translate: give a translation model"
                )
            runtimes[direction] = runtime
            judge = Judge.from_runtime(runtime, default=FLAG_ABOVE, beam=given.get("beam", 1))
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
            raise BytenmtError(f"--detect-text {language}={path}: the file contains no text")
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
