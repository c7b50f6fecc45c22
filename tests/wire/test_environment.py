"""What the environment says about proxies and certificates, over real connections on the loopback."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from wire_server import CHAT, KEY, SSE, asked, response, serving

from ledger.wire.exchange import Exchange

VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR")
SOMEWHERE, SAFELY = "http://no-such-host.invalid/v1", "https://no-such-host.invalid/v1"


@pytest.fixture(autouse=True)
def _nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


def failed(url: str) -> Exchange:
    """Make an exchange that fails before anything leaves; its error is one line that has no key."""
    done = anyio.run(asked, url)
    assert done.outcome == "failed" and done.status == 0 and done.unbilled and done.answer is None
    assert "\n" not in done.error and KEY not in done.error and done.ran_us is not None
    return done


def test_a_proxy_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """LOOP-13: a request to a host that only the proxy knows arrives by it."""

    async def both() -> None:
        async with serving(response(SSE, *CHAT)) as proxy:
            monkeypatch.setenv("HTTP_PROXY", proxy.url)
            done = await asked(SOMEWHERE)
            assert done.outcome == "answered"
            assert proxy.seen[0].startswith(b"POST http://no-such-host.invalid/v1/chat/completions HTTP/1.1\r\n")

    anyio.run(both)


@pytest.mark.parametrize("excluded", ["127.0.0.1", "*", "example.com,127.0.0.1"])
def test_no_proxy_excludes(monkeypatch: pytest.MonkeyPatch, excluded: str) -> None:
    """LOOP-13: a server on this machine is asked by the proxy too, unless NO_PROXY has it."""

    async def both() -> None:
        async with serving(response(SSE, *CHAT)) as proxy, serving(response(SSE, *CHAT)) as server:
            monkeypatch.setenv("HTTP_PROXY", proxy.url)
            assert (await asked(server.url)).outcome == "answered"
            assert (len(proxy.seen), len(server.seen)) == (1, 0)
            monkeypatch.setenv("NO_PROXY", excluded)
            assert (await asked(server.url)).outcome == "answered"
            assert (len(proxy.seen), len(server.seen)) == (1, 1)

    anyio.run(both)


def test_a_proxy_that_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    """OBS-03: `https` goes through a tunnel: the proxy never sees the key, and its refusal is told as its own."""

    async def both() -> Exchange:
        async with serving(response("text/html", b"<html>", status="407 Proxy Authentication Required")) as proxy:
            monkeypatch.setenv("HTTPS_PROXY", proxy.url)
            done = await asked(SAFELY)
            assert proxy.seen[0].startswith(b"CONNECT no-such-host.invalid:443 ") and KEY.encode() not in proxy.seen[0]
            return done

    done = anyio.run(both)
    assert (done.outcome, done.reason, done.unbilled) == ("failed", "proxy", True) and "HTTPS_PROXY" in done.error


def test_a_proxy_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """OBS-03: where it is the proxy that cannot be reached the line says where to look; without one it does not."""
    assert "PROXY" not in failed(SOMEWHERE).error
    monkeypatch.setenv("HTTP_PROXY", "no-such-proxy.invalid:3128")
    done = failed(SOMEWHERE)
    assert done.reason == "unknown_host" and "HTTPS_PROXY and NO_PROXY" in done.error


@pytest.mark.parametrize(
    ("variable", "value", "url", "said"),
    [
        ("ALL_PROXY", "gopher://me:hidden@proxy", SOMEWHERE, "check HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY"),
        ("HTTPS_PROXY", "ftp://proxy", SAFELY, "check HTTPS_PROXY"),
        ("SSL_CERT_FILE", "/nowhere/ca.pem", SAFELY, "SSL_CERT_FILE"),
        ("SSL_CERT_FILE", str(Path(__file__)), SAFELY, "SSL_CERT_FILE"),
    ],
)
def test_an_environment_that_cannot_be_used(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, url: str, said: str
) -> None:
    """OBS-03: it is a failure of the request, not retried, that names the variable and never shows a password."""
    monkeypatch.setenv(variable, value)
    if variable == "SSL_CERT_FILE":  # with a proxy too, where the library reads certificates at once
        assert failed(url).reason == "environment"
        monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    done = failed(url)
    assert (done.reason, done.retryable) == ("environment", False)
    assert said in done.error and "hidden" not in done.error and done.error.startswith("no-such-host.invalid: ")


def test_a_socks_proxy_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    """OBS-03: without the package that speaks SOCKS the line says which one to install."""
    monkeypatch.setitem(__import__("sys").modules, "socksio", None)
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:1080")
    assert "install httpx[socks]" in failed(SOMEWHERE).error


def test_certificates_of_this_machine_alone_do_not_matter_to_http(monkeypatch: pytest.MonkeyPatch) -> None:
    """LOOP-13: without TLS no certificate is read, so that a broken file does not stop a server on the loopback."""

    async def both() -> Exchange:
        async with serving(response(SSE, *CHAT)) as served:
            return await asked(served.url)

    monkeypatch.setenv("SSL_CERT_FILE", "/nowhere/ca.pem")
    assert anyio.run(both).outcome == "answered"


def test_a_certificate_that_the_environment_trusts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """LOOP-13: a company's own authority is trusted by SSL_CERT_FILE, and only by it."""
    from wire_server import SELF_SIGNED

    async def both() -> Exchange:
        async with serving(response(SSE, *CHAT), tls=True) as served:
            return await asked(served.url)

    assert anyio.run(both).reason == "tls"
    trusted = tmp_path / "ca.pem"
    trusted.write_text(SELF_SIGNED.partition("-----BEGIN PRIVATE KEY-----")[0])
    monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
    assert anyio.run(both).outcome == "answered"
