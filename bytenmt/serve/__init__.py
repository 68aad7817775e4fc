"""Translation as a service: requests over HTTP in, translations out.

`app` has the routes, `bodies` their fields, `gateway` what surrounds a request, `service` the way
from texts over `documents` (child processes) and `worker` (a thread a direction) back to texts,
`server` runs it with uvicorn. The event loop never decodes and never parses a document; the process
imports no PyTorch (tests/serve/test_process.py). Imports translation, documents and Starlette.
"""
