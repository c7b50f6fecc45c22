"""The HTTP client: where it connects, through which proxy, and whom it trusts. With `exchange` all that knows httpx.

Proxies and certificates are the environment's, as docs/models.md says. An environment that cannot be used is no
reason to fail before there is a request to say it of: it fails every exchange, with a line that names the variables.
"""

from __future__ import annotations

from urllib.request import getproxies

import httpx

from ledger.wire.failures import Failure

_POOL = httpx.Limits(max_keepalive_connections=8)
_PROXIES = "HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY"
_SCHEMES = ("http", "https", "all")


class EnvironmentUnusable(Exception):
    """The environment names a proxy or certificates that nothing can be done with."""

    def __init__(self, what: str, advice: str) -> None:
        super().__init__(what)
        self.failure = Failure("environment", False, what, advice, unsent=True)


def has_proxy() -> bool:
    """Return whether the environment names a proxy."""
    found = getproxies()
    return any(found.get(scheme) for scheme in _SCHEMES)


def new_client() -> httpx.AsyncClient:
    """Return a client that follows no redirect: a key is sent where it was meant to go, and nowhere else."""
    if not has_proxy():
        return httpx.AsyncClient(follow_redirects=False, transport=_Transport())
    try:
        return httpx.AsyncClient(follow_redirects=False, limits=_POOL)
    except ImportError:
        what, advice = "a SOCKS proxy needs the package socksio", f"install httpx[socks], or change {_PROXIES}"
    except OSError:
        return httpx.AsyncClient(transport=_Unusable(*_certificates()))
    except (httpx.InvalidURL, ValueError):
        # Its text would show the address, which may have a password.
        what, advice = "the environment's proxy is no address of one", f"check {_PROXIES}"
    return httpx.AsyncClient(transport=_Unusable(what, advice))


def _certificates() -> tuple[str, str]:
    return "the certificates cannot be read", "check the files that SSL_CERT_FILE and SSL_CERT_DIR name"


class _Unusable(httpx.AsyncBaseTransport):
    """Sends nothing, and says why."""

    def __init__(self, what: str, advice: str) -> None:
        self._why = (what, advice)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        raise EnvironmentUnusable(*self._why)


class _Transport(httpx.AsyncBaseTransport):
    """The library's own transport, made when it is first needed: the certificates of `https` take 50 ms to load."""

    def __init__(self) -> None:
        self._of: dict[str, httpx.AsyncHTTPTransport] = {}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return await self._for(request.url.scheme).handle_async_request(request)

    def _for(self, scheme: str) -> httpx.AsyncHTTPTransport:
        if scheme not in self._of:
            try:
                # Without TLS there is nothing to verify; all else is verified.
                self._of[scheme] = httpx.AsyncHTTPTransport(verify=scheme != "http", limits=_POOL)
            except OSError:
                raise EnvironmentUnusable(*_certificates()) from None
        return self._of[scheme]

    async def aclose(self) -> None:
        for one in self._of.values():
            await one.aclose()
