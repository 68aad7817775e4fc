"""Imported by the process that forks the children of `documents`: all that reading needs is ready in them."""

from importlib import import_module

from bytenmt.documents.formats import FORMATS
from bytenmt.serve.documents import DocumentSource, run_task

for reader in {one.reader.partition(".")[0] for one in FORMATS.values()}:
    import_module(f"bytenmt.documents.{reader}")
run_task([DocumentSource("page.html", b"<p>a <b>b</b> {c}</p>")])
