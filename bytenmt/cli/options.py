"""Commands and their options, made from the fields that describe them. Imports nothing heavy."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import redirect_stderr
from dataclasses import MISSING, dataclass, is_dataclass
from pathlib import Path
from typing import Any, NamedTuple, get_type_hints

import click

from bytenmt.architectures.presets import PRESETS
from bytenmt.config.fields import MAX_COUNT, Option, option, options_of, shorten
from bytenmt.decoding.interface import EngineSpec
from bytenmt.plugins import load_plugins
from bytenmt.translation.settings import KEEP_SETTINGS, TRANSLATION_SETTINGS

# Keys of click's meta.
QUIET = "bytenmt.quiet"
VERBOSE = "bytenmt.verbose"
# Headings of --help, besides those of decoding/interface and translation/settings.
OPTIONS = "Options"
FILES = "Input and output"
GENERAL = "General options"
ARCHITECTURES = tuple(PRESETS["small"])


class HeadedOption(click.Option):
    """A click option that --help of a Command lists under `heading`."""

    def __init__(self, *args: Any, heading: str = OPTIONS, **more: Any) -> None:
        super().__init__(*args, **more)
        self.heading = heading


def common_options() -> list[click.Parameter]:
    """Return the click options of every command: -q, -v and --plugin.

    The values of -q and -v are stored in ctx.meta; --plugin imports the Python files it names.
    """

    def store(ctx: click.Context, param: click.Parameter, is_set: bool) -> None:
        ctx.meta[f"bytenmt.{param.name}"] = is_set

    def load(ctx: click.Context, _: click.Parameter, files: tuple[str, ...]) -> None:
        if not ctx.resilient_parsing:
            load_plugins(files)

    hidden: dict[str, Any] = {"expose_value": False, "heading": GENERAL}
    flag: dict[str, Any] = {"is_flag": True, "callback": store, **hidden}
    plugin: dict[str, Any] = {"metavar": "FILE.py", "multiple": True, "callback": load, **hidden}
    plugin["is_eager"] = True  # what it adds may be named by other options
    plugin["help"] = "Load a plugin, a Python file, before the options are read; may be repeated."
    return [
        HeadedOption(["--plugin"], **plugin),
        HeadedOption(["-q", "--quiet"], help="Print only errors on stderr.", **flag),
        HeadedOption(
            ["-v", "--verbose"], help="Print details on stderr, such as the chosen engine.", **flag
        ),
    ]


class Command(click.Command):
    """A command with -q, -v and --plugin, whose --help lists options under headings."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.params += common_options()

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options of each heading, in the order in which the headings occur first."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx) if isinstance(param, click.Option) else None
            if record is not None:
                sections.setdefault(getattr(param, "heading", GENERAL), []).append(record)
        for heading, records in sections.items():
            with formatter.section(heading):
                formatter.write_dl(records)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; with -q everything on stderr but errors is discarded."""
        if not ctx.meta[QUIET]:
            return super().invoke(ctx)
        # Whatever writes notes or progress writes them to sys.stderr; errors are told after this.
        with open(os.devnull, "w") as nowhere, redirect_stderr(nowhere):
            return super().invoke(ctx)


class OptionGroup(NamedTuple):
    """Click parameters that together make one or more arguments of a command's function."""

    name: str  # of the first of these arguments
    params: Sequence[click.Parameter]
    # Called with the values of all click parameters by name: removes the values of `params` from
    # them and returns the arguments, by name.
    take: Callable[[dict[str, Any]], dict[str, Any]]


def command(
    name: str, *groups: OptionGroup, **context: Any
) -> Callable[[Callable[..., None]], Command]:
    """Return a decorator that makes a click command of a function, with its docstring as the help.

    name: of the command. groups: the click parameters of some arguments of the function, each named
    after its argument. For any other argument whose type is a dataclass, the options are the fields
    that the dataclass declares by config.fields.option. context: settings of click's context.
    """

    def decorate(function: Callable[..., None]) -> Command:
        by_name = {group.name: group for group in groups}
        hints = get_type_hints(function)
        for key, hint in hints.items():
            if key not in by_name and is_dataclass(hint):
                by_name[key] = dataclass_options(key, hint)
        ordered = [by_name[key] for key in hints if key in by_name]

        def callback(**values: Any) -> None:
            arguments: dict[str, Any] = {}
            for group in ordered:
                arguments |= group.take(values)
            function(**arguments)

        params = [param for group in ordered for param in group.params]
        help = inspect.getdoc(function)
        return Command(name, callback=callback, params=params, help=help, context_settings=context)

    return decorate


class OptionValue(click.ParamType):  # type: ignore[type-arg]  # generic in the latest click
    """The click type of an Option: converts a text to the Option's type and checks its bounds."""

    def __init__(self, option: Option) -> None:
        self.option = option
        self.name = "text" if option.item in (str, bytes) else "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return a value of the command line in the option's type; called by click.

        click.BadParameter is raised, and shown by click, for a value that is not allowed.
        """
        try:
            if self.name == "text" and isinstance(value, str):
                value.encode()
            elif isinstance(value, str):
                return self.option.convert(value, is_text=True)
        except UnicodeEncodeError:  # what Python made of a byte of the command line
            self.fail(f"{shorten(value)} is not UTF-8.", param, ctx)
        except ValueError as error:
            self.fail(f"{shorten(value)}: {error}.", param, ctx)
        return value


def click_option(option: Option, heading: str) -> HeadedOption:
    """Convert an Option to a click option, whose value is None where the user does not give it.

    heading: heading of --help to list it under, if the Option names none.
    """
    names = [*(option.flags or (option.long,)), option.name]
    help = option.help
    more: dict[str, Any] = {"required": True} if option.default is MISSING else {"default": None}
    if option.default not in (MISSING, None, False, (), "", b"") and "(default" not in help:
        shown = f"{option.default:g}" if isinstance(option.default, float) else option.default
        help = f"{help.removesuffix('.')} (default: {shown})."
    if bool in (option.item, option.kind):
        more["is_flag"] = True
    else:
        kind: Any = OptionValue(option)
        if option.choices:
            kind = click.Choice(option.choices)
        elif option.item is Path:
            kind = click.Path(path_type=Path)
        more |= {"type": kind, "multiple": option.is_repeated, "metavar": option.metavar}
    return HeadedOption(names, heading=option.heading or heading, help=help, **more)


def dataclass_options(name: str, kind: Any, only: Sequence[str] = ()) -> OptionGroup:
    """Return the command-line options for the fields of a dataclass.

    name: argument of the command's function that gets an instance of the dataclass. kind: the
    dataclass; its attribute `heading`, if any, is the heading in --help. only: names of the fields
    that become options; empty: all.
    """
    heading = getattr(kind, "heading", OPTIONS)
    options = [option for option in options_of(kind).values() if not only or option.name in only]
    declared = inspect.get_annotations(kind)
    options.sort(key=lambda option: option.name not in declared)  # those that it inherits come last
    return given_options(name, options, heading, kind)


def given_options(
    name: str, options: Iterable[Option], heading: str = OPTIONS, kind: Callable[..., Any] = dict
) -> OptionGroup:
    """Return command-line options whose values a command's function gets as one argument.

    name: of the argument. heading: of --help, for options without one. kind: called with the values
    that the user has given as keywords, it makes the argument; dict: they become a dict.
    """
    options = tuple(options)

    def take(values: dict[str, Any]) -> dict[str, Any]:
        taken = {option.name: values.pop(option.name) for option in options}
        given = {key: value for key, value in taken.items() if value not in (None, ())}
        return {name: kind(**given)}

    return OptionGroup(name, [click_option(option, heading) for option in options], take)


def models(
    metavar: str = "MODEL...", help: str = "", most: int = MAX_COUNT, least: int = 1
) -> OptionGroup:
    """Return the argument MODEL and the option -m, whose paths a command's function gets as `runs`.

    metavar: the arguments as --help shows them. Words after MODEL in it, such as IN OUT, are paths
    that the function gets as `files`; several models then need -m. help: the meaning of several
    models, for --help. least, most: the allowed number of models.
    """
    names = metavar.split()[1:]
    n_least = sum(not name.startswith("[") for name in names)
    n_most = MAX_COUNT if metavar.endswith("...") else len(names)

    def take(values: dict[str, Any]) -> dict[str, Any]:
        runs = values.pop("runs")
        words = values.pop("words")
        if not names:
            runs += words
        elif not runs:
            runs, words = words[:1], words[1:]
        if not least <= len(runs) <= most:
            raise click.UsageError(f"{len(runs)} models: expected {metavar}")
        if names and not n_least <= len(words) <= n_most:
            raise click.UsageError(f"{len(words)} files after the model: expected {metavar}")
        return {"runs": runs, "files": words} if names else {"runs": runs}

    path = click.Path(path_type=Path)
    text = f"Run folder or weights file, instead of MODEL. {help}".rstrip()
    return OptionGroup(
        "runs",
        [
            HeadedOption(["-m", "--model", "runs"], type=path, multiple=True, help=text),
            click.Argument(["words"], metavar=metavar, type=path, nargs=-1),
        ],
        take,
    )


def settings(*groups: str) -> OptionGroup:
    """Return translation options, whose values a command's function gets as the dict `settings`.

    groups: of the options: "search", "sampling" or "output". The options about what is copied
    unchanged, such as --keep and --glossary, are always included.
    """
    options = [option for option in TRANSLATION_SETTINGS.values() if option.group in groups]
    return given_options("settings", [*options, *KEEP_SETTINGS.values()])


@dataclass(frozen=True, kw_only=True)
class PresetOptions:
    """The options --preset and --set, which change the configuration of a model."""

    preset: str | None = option(None, "Size and training settings.", choices=tuple(PRESETS))
    assignments: tuple[str, ...] = option(
        (),
        "Set a configuration key, such as train.ema=0.999; may be repeated.",
        "--set",
        metavar="KEY=VALUE",
    )


# The options --device and --threads, for an argument `machine` of a command's function.
MACHINE = dataclass_options("machine", EngineSpec, ("device", "threads"))
