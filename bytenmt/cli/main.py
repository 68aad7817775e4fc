"""The program `bytenmt`: its group of commands.

The module of a command is imported on demand, and heavy modules inside the command, so that --help is quick.
Results go to stdout, everything else to stderr; a BytenmtError is one line there and exit code 1.
"""

from __future__ import annotations

import click

from bytenmt import __version__
from bytenmt.cli.console import MainGroup

COMMANDS = {  # and the modules of bytenmt.cli that define them
    "train": "train",
    "adapt": "adapt",
    "translate": "translate",
    "translate-file": "translate_file",
    "translate-dataset": "translate_dataset",
    "evaluate": "evaluate",
    "predict": "language",
    "generate": "language",
    "convert": "model",
    "info": "model",
    "plot": "plot",
    "serve": "serve",
}

COMPLETION = """\b
The shell completes commands, options, architectures and files after
  eval "$(_BYTENMT_COMPLETE=bash_source bytenmt)"                    in ~/.bashrc
  eval "$(_BYTENMT_COMPLETE=zsh_source bytenmt)"                     in ~/.zshrc
  _BYTENMT_COMPLETE=fish_source bytenmt | source  in ~/.config/fish/config.fish
"""


@click.group(
    cls=MainGroup,
    modules=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=COMPLETION,
)
@click.version_option(__version__, prog_name="bytenmt")
def main() -> None:
    """Character-level translation on raw UTF-8 bytes: no tokenizer, no vocabulary."""
