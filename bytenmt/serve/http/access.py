"""Access of websites to the server, checked by the Host and Origin headers.

A browser sends requests of any page on the internet to any address that its machine can reach. What keeps
such a page from using a server on loopback are two headers that pages cannot forge: Origin, the site of the
page, and Host, which names the attacker's own domain where that has been made to resolve to 127.0.0.1 (DNS
rebinding).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

import msgspec
from starlette.types import ASGIApp, Message, Receive, Scope, Send

ANY = "*"
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")  # which change nothing; what they return, other sites cannot read
DEFAULT_PORTS = {"http": 80, "https": 443}
MISDIRECTED, FORBIDDEN = 421, 403
# Other sites do not embed what the server returns, and browsers do not take it for another kind of file.
HEADERS = ((b"x-content-type-options", b"nosniff"), (b"cross-origin-resource-policy", b"same-origin"))


@dataclass(frozen=True)
class AccessPolicy:
    """The hosts and origins that are allowed.

    allowed_hosts: names of the server; any if empty. loopback_only: the server listens at a loopback address;
    loopback names are then allowed too, and no others if `allowed_hosts` is empty. allowed_origins: sites,
    such as https://example.org, whose pages may use the server. ANY in either allows everything.
    """

    allowed_hosts: Sequence[str] = ()
    allowed_origins: Sequence[str] = ()
    loopback_only: bool = False

    def allows_host(self, host: str) -> bool:
        """Return whether a Host header (name or address, and port) is one of the server's."""
        if ANY in self.allowed_hosts or not (self.allowed_hosts or self.loopback_only):
            return True
        name = _split(f"//{host}", "")[0]
        if name is None:
            return False
        return name in map(str.lower, self.allowed_hosts) or (self.loopback_only and is_loopback(name))

    def allows_origin(self, origin: str, host: str) -> bool:
        """Return whether a page of this origin may use the server: its own pages and those of allowed sites.

        host: the Host header. "null", the origin of sandboxed pages and of files, is not allowed.
        """
        if ANY in self.allowed_origins or origin.lower() in map(str.lower, self.allowed_origins):
            return True
        scheme = origin.partition(":")[0].lower()
        page = _split(origin, scheme)
        return page[0] is not None and page == _split(f"//{host}", scheme)


def is_loopback(name: str) -> bool:
    """Return whether a name or address is a loopback one: localhost, *.localhost, 127.0.0.0/8 or ::1."""
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback


def _split(url: str, scheme: str) -> tuple[str | None, int | None]:
    """Return the host name of a URL in lower case, and its port; None as the name if it is malformed."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None, None
    if parts.username is not None or parts.path or parts.query or parts.fragment or not parts.hostname:
        return None, None
    return parts.hostname.rstrip("."), port or DEFAULT_PORTS.get(scheme)


class AccessMiddleware:
    """Middleware that refuses requests by their Host and Origin headers, see AccessPolicy.

    Safe methods pass with a foreign origin: the browser does not let the page read the answer.
    """

    def __init__(self, app: ASGIApp, policy: AccessPolicy) -> None:
        self._app, self._policy = app, policy

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        hosts = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
        origins = [value.decode("latin-1") for name, value in scope["headers"] if name == b"origin"]
        host = hosts[0] if len(hosts) == 1 else ""
        if not self._policy.allows_host(host):
            refusal = MISDIRECTED, f"{host[:100]!r} is not a name of this server: --allowed-host adds one"
        elif scope["method"] not in SAFE_METHODS and not all(
            self._policy.allows_origin(origin, host) for origin in origins
        ):
            told = ", ".join(origins)[:100]
            refusal = FORBIDDEN, f"pages of {told!r} may not use this server: --allowed-origin allows them"
        else:
            await self._app(scope, receive, _with_headers(send))
            return
        status, message = refusal
        body = msgspec.json.encode({"error": message})
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body)), *HEADERS]
        if scope["method"] not in SAFE_METHODS:
            headers.append((b"connection", b"close"))  # its body is not read
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})


def _with_headers(send: Send) -> Send:
    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            own = {name for name, _ in message["headers"]}
            more = [header for header in HEADERS if header[0] not in own]
            message = {**message, "headers": [*message["headers"], *more]}
        await send(message)

    return sent
