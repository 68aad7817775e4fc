"""The program: its group of commands.

The heavy imports stand inside the commands, so that --help is quick. Results go to stdout, all else
to stderr; every BytenmtError is one line there and exit code 1. Nothing imports this file.
"""

from __future__ import annotations

import click

from bytenmt import __version__
from bytenmt.cli.console import CommandGroup
from bytenmt.cli.language_commands import generate, predict
from bytenmt.cli.model_commands import average, card, convert, draft, info
from bytenmt.cli.progress import Console
from bytenmt.cli.train_command import train
from bytenmt.cli.translation_commands import evaluate, score, translate
from bytenmt.kernel_cache import report_to

COMPLETION = """\b
The shell completes commands, options, architectures, presets and files after
  eval "$(_BYTENMT_COMPLETE=bash_source bytenmt)"                    in ~/.bashrc
  eval "$(_BYTENMT_COMPLETE=zsh_source bytenmt)"                     in ~/.zshrc
  _BYTENMT_COMPLETE=fish_source bytenmt | source  in ~/.config/fish/config.fish
"""


@click.group(
    cls=CommandGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=COMPLETION,
)
@click.version_option(__version__, prog_name="bytenmt")
def main() -> None:
    """Character-level translation on raw UTF-8 bytes: no tokenizer, no vocabulary."""
    report_to(Console())


for command in (train, translate, evaluate, score, predict, generate, average, convert, draft, info, card):
    main.add_command(command)
