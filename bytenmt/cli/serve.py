"""The command `serve`. Heavy modules are imported inside it."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import click

from bytenmt.cli.console import CONSOLE
from bytenmt.cli.options import FILES, HeadedOption, OptionGroup, command, given_options
from bytenmt.config.fields import Option, Port, Positive, option
from bytenmt.decoding.interface import ENGINE_SETTINGS, SEARCH_HEADING
from bytenmt.errors import BytenmtError
from bytenmt.translation.settings import CONSTRAINTS_HEADING, KEEP_SETTINGS, TRANSLATION_SETTINGS

PREFIX = "BYTENMT_SERVE"  # of environment variables
# Headings of --help.
ACCESS = "Access"
LIMITS = "Limits"
LOOPBACK_NAMES = ("localhost", "*.localhost", "127.0.0.1", "[::1]")


@dataclass(frozen=True)
class NetworkOptions:
    """The options of `bytenmt serve` on its address, access and limits."""

    host: str = option("127.0.0.1", "Address to listen on.", heading=FILES)
    port: Port = option(5000, "Port; 0 is any free one.", heading=FILES)
    suggestions: Path | None = option(
        None, "Folder for what is sent to /suggest: one TSV file per direction.", heading=FILES
    )
    api_keys: Path | None = option(
        None, "File of API keys, one per line; every request needs one of them.", heading=ACCESS
    )
    allowed_host: tuple[str, ...] = option(
        (),
        "Name of the server, such as *.example.org, in the Host header of requests; * is any"
        " (default: names of this machine if --host is a loopback address, otherwise any).",
        metavar="NAME",
        heading=ACCESS,
    )
    allowed_origin: tuple[str, ...] = option(
        (),
        "Web site such as https://example.org whose pages may use the server; * is any"
        " (default: only the server's own page).",
        metavar="ORIGIN",
        heading=ACCESS,
    )
    trusted_proxy: tuple[str, ...] = option(
        (),
        "Address or network of a proxy whose X-Forwarded-For, -Proto and -Prefix are believed.",
        metavar="ADDRESS",
        heading=ACCESS,
    )
    max_characters: Positive = option(
        20_000,
        "Characters of the texts of a request; its body may have a hundred times as many bytes.",
        heading=LIMITS,
    )
    max_queue: Positive = option(
        256,
        "Requests that wait or are decoded; one client may have a quarter of them.",
        heading=LIMITS,
    )
    timeout: Positive = option(
        120, "Seconds from the headers of a request to the end of its answer.", heading=LIMITS
    )

    def __post_init__(self) -> None:
        """Raise BytenmtError for values of the access that nobody would ever match."""
        for origin in self.allowed_origin:
            if not re.fullmatch(r"\*|[^:/]+://[^/]+", origin):
                expected = "* or a site such as https://example.org"
                raise BytenmtError(f"--allowed-origin {origin}: expected {expected}")
        for host in self.allowed_host:
            if not re.fullmatch(r"[^:/]+|\[.+\]", host):
                raise BytenmtError(f"--allowed-host {host}: expected a name such as *.example.org")
        try:
            for address in self.trusted_proxy:
                ip_network(address)
        except ValueError as error:
            raise BytenmtError(f"--trusted-proxy: {error}") from None


# The options of `bytenmt serve` on how its models translate.
DECODING = (
    *(option for option in TRANSLATION_SETTINGS.values() if option.group == "search"),
    Option(
        "reverse",
        bool,
        False,
        "Have the model of the opposite direction, where it is served, rank the hypotheses, too."
        " Needs --beam-size 2 or more.",
        heading=SEARCH_HEADING,
    ),
    KEEP_SETTINGS["keep"],
    Option(
        "glossary",
        tuple[str, ...],
        (),
        "Glossary of a direction, as for `translate --glossary`; may be repeated.",
        metavar="PAIR=FILE",
        heading=CONSTRAINTS_HEADING,
    ),
    ENGINE_SETTINGS["precision"],
    ENGINE_SETTINGS["threads"],
)

# The argument PAIR=MODEL and the option -m of `bytenmt serve`.
MODELS = OptionGroup(
    "models",
    [
        HeadedOption(
            ["-m", "--model", "models"],
            multiple=True,
            metavar="PAIR=MODEL",
            help="A direction and its model.",
        ),
        click.Argument(["words"], metavar="PAIR=MODEL...", nargs=-1),
    ],
    lambda values: {"models": values.pop("models") + values.pop("words")},
)


@command("serve", MODELS, given_options("decoding", DECODING), auto_envvar_prefix=PREFIX)
def serve(models: tuple[str, ...], network: NetworkOptions, decoding: dict[str, Any]) -> None:
    """Serve translations over HTTP: LibreTranslate's API.

    PAIR is the direction of a model, as in en-de=MODEL; several models of one direction decode as
    an ensemble. A web page is at /. SIGTERM stops the server after all accepted requests are
    answered. Every option has an environment variable, several values separated by spaces:
    BYTENMT_SERVE_MAX_QUEUE for --max-queue, BYTENMT_SERVE_MODELS for PAIR=MODEL, BYTENMT_SERVE_BEAM
    for --beam-size. To make the server public, require --api-keys and put a TLS proxy in front of
    it, named by --trusted-proxy.
    \f
    models: texts PAIR=MODEL. decoding: the given options on how they translate, by name, such as
    {"beam": 5, "threads": 4}.
    """
    known = {
        f"{PREFIX}_{param.name}".upper()
        for param in click.get_current_context().command.params
        if isinstance(param, click.Option)
    }
    given = {name for name in os.environ if name.startswith(f"{PREFIX}_")}
    if unknown := sorted(given - known):
        raise click.UsageError(f"serve has no variable {unknown[0]}: see --help.")
    if not models:
        raise click.UsageError("No model given: name PAIR=MODEL.")
    from bytenmt.serve.app import App
    from bytenmt.serve.loading import load_models, read_keys
    from bytenmt.serve.server import listening, run
    from bytenmt.serve.service import Service
    from bytenmt.serve.work_queue import Limits

    if network.suggestions is not None:
        network.suggestions.mkdir(parents=True, exist_ok=True)
    with listening(network.host, network.port) as listener:
        address = listener.getsockname()[0]
        hosts = list(network.allowed_host)
        if ip_address(address).is_loopback:
            hosts += [*LOOPBACK_NAMES, address]
        keys: list[str] = read_keys(network.api_keys) if network.api_keys is not None else []
        limits = Limits(network.max_characters, network.max_queue, network.timeout)
        service = Service(load_models(models, decoding, CONSOLE), keys, limits)
        app = App(service, hosts or ["*"], network.allowed_origin, network.suggestions)
        run(app, listener, network.trusted_proxy)
