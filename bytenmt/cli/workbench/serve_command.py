"""The command `serve`. Heavy modules are imported inside it."""

from __future__ import annotations

import difflib
import os
import signal
import threading
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import click

from bytenmt.cli.console import Command
from bytenmt.cli.options import CONSTRAINED, COUNT, FILE, headed, options, setting_options, within
from bytenmt.cli.progress import Console
from bytenmt.config.bounds import THREADS, Bounds
from bytenmt.decoding.setting_table import AUTO, KEPT, PRECISIONS, SPEED

PREFIX = "BYTENMT_SERVE_"  # of environment variables
LOOPBACK_NAMES = ("localhost", "*.localhost", "127.0.0.1", "[::1]")
ACCESS = headed(
    "Access",
    click.option("--api-keys", type=FILE, help="File of API keys, one per line, of which requests need one."),
    click.option(
        "--allowed-host",
        metavar="NAME",
        multiple=True,
        help="Name of the server, such as *.example.org, in the Host header of requests; * is any (default:"
        " names of this machine if --host is a loopback address, otherwise any).",
    ),
    click.option(
        "--allowed-origin",
        metavar="ORIGIN",
        multiple=True,
        help="Web site such as https://example.org whose pages may use the server; * is any (default: only"
        " the server's own page).",
    ),
    click.option(
        "--trusted-proxy",
        metavar="ADDRESS",
        multiple=True,
        help="Address or network of a proxy whose X-Forwarded-For and X-Forwarded-Proto are believed.",
    ),
)
LIMITS = headed(
    "Limits",
    click.option(
        "--max-characters",
        type=COUNT,
        default=20_000,
        show_default=True,
        help="Characters of the texts of a request; its body may have a hundred times as many bytes.",
    ),
    click.option(
        "--max-queue",
        type=COUNT,
        default=256,
        show_default=True,
        help="Requests that wait or are decoded; one client may have a quarter of them.",
    ),
    click.option(
        "--timeout",
        type=within(Bounds(1, 86_400)),
        default=120,
        show_default=True,
        help="Seconds from the headers of a request to the end of its answer.",
    ),
)
DECODING = options(
    setting_options("search"),
    headed(
        "Search",
        click.option(
            "--reverse",
            is_flag=True,
            help="Have the model of the opposite direction, where it is served, rank the hypotheses, too."
            " Needs --beam-size 2 or more.",
        ),
    ),
    headed(
        CONSTRAINED,
        click.option(
            "--keep",
            metavar=",".join(KEPT),
            help="Classes of spans that are copied from the source; none keeps nothing (default: all).",
        ),
        click.option(
            "--glossary",
            metavar="PAIR=FILE",
            multiple=True,
            help="Glossary of a direction, as of `translate --glossary`; terms of a request take precedence.",
        ),
    ),
    headed(
        SPEED,
        click.option(
            "--precision",
            type=click.Choice([AUTO, *PRECISIONS]),
            default=AUTO,
            help="Precision of the weights.",
        ),
        click.option(
            "--threads", type=within(THREADS), help="CPU threads of a direction (default: by the cores)."
        ),
    ),
)


class ServeCommand(Command):
    """A command whose options have environment variables, of which an unknown one is an error."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        for option in self.params:
            if isinstance(option, click.Option):
                option.envvar = PREFIX + max(option.opts, key=len).lstrip("-").replace("-", "_").upper()

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        known = {str(option.envvar) for option in self.params}
        for name in sorted(name for name in os.environ if name.startswith(PREFIX) and name not in known):
            close = difflib.get_close_matches(name, known, 1)
            raise click.UsageError(
                f"{name} is no variable of serve{f': see {close[0]}' if close else ''}.", ctx
            )
        return super().parse_args(ctx, args)


@click.command(cls=ServeCommand)
@click.option(
    "-m",
    "--model",
    metavar="PAIR=RUN",
    multiple=True,
    required=True,
    help="Direction and its model, such as en-de=RUN; several of one direction decode as an ensemble.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port", type=within(Bounds(0, 65535)), default=5000, show_default=True, help="Port; 0 is any free one."
)
@click.option("--suggestions", type=FILE, help="Folder for what is sent to /suggest: a TSV file a direction.")
@ACCESS
@LIMITS
@DECODING
def serve(
    model: tuple[str, ...],
    host: str,
    port: int,
    suggestions: Path | None,
    api_keys: Path | None,
    allowed_host: tuple[str, ...],
    allowed_origin: tuple[str, ...],
    trusted_proxy: tuple[str, ...],
    max_characters: int,
    max_queue: int,
    timeout: int,
    **decoding: Any,
) -> None:
    """Serve translations over HTTP: LibreTranslate's API.

    A web page is at /. Directions without a model of their own are translated over another language. SIGTERM
    stops the server after all accepted requests are answered; SIGHUP reads models, glossaries and keys again.
    Every option has an environment variable, for example BYTENMT_SERVE_MAX_QUEUE for --max-queue; several
    values are separated by spaces. To make the server public, require --api-keys and put a TLS proxy in front
    of it, named by --trusted-proxy.
    """
    hang_up = threading.Event()  # is set also while the server starts
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, lambda *_: hang_up.set())
    from bytenmt.decoding.cpu.compilation import stop_child
    from bytenmt.serve.app import App
    from bytenmt.serve.loading import load_models
    from bytenmt.serve.server import listening, run
    from bytenmt.serve.service import Metrics, Service
    from bytenmt.serve.work_queue import Limits

    if suggestions is not None:
        suggestions.mkdir(parents=True, exist_ok=True)
    metrics = Metrics()
    with listening(host, port) as listener:
        address = listener.getsockname()[0]
        own = (*LOOPBACK_NAMES, address) if ip_address(address).is_loopback else ()
        app_options = (*own, *allowed_host) or ("*",), allowed_origin, suggestions
        load = partial(load_models, model, decoding, api_keys, metrics.wait.observe, Console())
        service = Service(load(), Limits(max_characters, max_queue, timeout), metrics)
        try:
            run(App(service, *app_options), listener, load, hang_up, trusted_proxy)
        finally:
            stop_child()
