"""The server: this machine alone, reading alone, and no other file than those it was given."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request

import httpx
import pytest
import uvicorn
from click.testing import CliRunner

from posenc.explore import Session, app, unpack
from posenc.explore.server import server
from posenc.explore.server.document import document
from tests.asynchronous import finished

PORT = 8123
ORIGIN = f"http://127.0.0.1:{PORT}"


def ask(method: str, path: str, headers=None, port: int | None = PORT) -> httpx.Response:
    async def run() -> httpx.Response:
        transport = httpx.ASGITransport(app=app(Session(), port=port))
        async with httpx.AsyncClient(transport=transport, base_url=ORIGIN) as client:
            return await client.request(method, path, headers=headers or {})

    return finished(run())


@pytest.mark.parametrize(
    "host",
    [
        f"127.0.0.1:{PORT}",
        f"localhost:{PORT}",
        f"LOCALHOST:{PORT}",
        f"[::1]:{PORT}",
    ],
)
def test_names_of_this_machine_with_the_port_are_answered(host):
    assert ask("GET", "/api/frame", {"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        f"evil.example:{PORT}",
        f"127.0.0.1.evil.example:{PORT}",
        f"localhost.evil.example:{PORT}",
        "127.0.0.1",  # a page at port 80 is another origin
        "localhost",
        "[::1]",
        f"127.0.0.1:{PORT + 1}",
        f"[::1]:{PORT + 1}",
        "127.0.0.1:",
        "localhost:０",
        f"127.0.0.1:{PORT}:{PORT}",
        f"127.1:{PORT}",
        f"2130706433:{PORT}",
        f"0.0.0.0:{PORT}",
        f"[::ffff:127.0.0.1]:{PORT}",
        f"user@127.0.0.1:{PORT}",
        f"127.0.0.1:{PORT},evil.example",
        "",
        f"127.0.0.1 :{PORT}",
        f"127.0.0.1:+{PORT}",
        f"127.0.0.1:{PORT}/",
    ],
)
def test_any_other_name_is_refused(host):
    answer = ask("GET", "/", {"host": host.encode("utf-8")})
    assert answer.status_code == 400
    assert "127.0.0.1" in answer.text


def test_two_names_are_refused():
    answer = ask("GET", "/", [("host", f"127.0.0.1:{PORT}"), ("host", "evil.example")])
    assert answer.status_code == 400


@pytest.mark.parametrize(
    "method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT"]
)
@pytest.mark.parametrize("path", ["/", "/api/frame", "/static/app.js", "/nowhere"])
def test_nothing_but_reading(method, path):
    answer = ask(method, path)
    assert answer.status_code == 405
    assert answer.headers["allow"] == "GET, HEAD"


@pytest.mark.parametrize("path", ["/", "/api/frame?d=8", "/static/app.js", "/nowhere", "/api/save"])
def test_every_answer_carries_the_policy(path):
    answer = ask("GET", path)
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'")
    for never in ("unsafe-inline", "unsafe-eval", "http:", "https:", "*"):
        assert never not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"
    assert "access-control-allow-origin" not in answer.headers


def test_refusals_carry_the_policy_too():
    for answer in (ask("POST", "/"), ask("GET", "/", {"host": "evil.example"})):
        assert answer.headers["content-security-policy"].startswith("default-src 'none'")


def test_head_has_the_headers_and_no_body():
    answer = ask("HEAD", "/api/frame?d=8")
    assert answer.status_code == 200
    assert answer.content == b""
    assert int(answer.headers["content-length"]) > 1000


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_pages_of_other_sites_get_no_pictures(site):
    assert ask("GET", "/api/frame", {"sec-fetch-site": site}).status_code == 403
    assert ask("GET", "/", {"sec-fetch-site": site}).status_code == 200  # a link to the page


@pytest.mark.parametrize(
    "origin",
    [
        "https://evil.example",
        "null",
        "",
        f"http://127.0.0.1:{PORT + 1}",
        f"https://127.0.0.1:{PORT}",
    ],
)
def test_pages_of_other_origins_get_no_pictures_where_no_site_is_named(origin):
    assert ask("GET", "/api/frame?d=8", {"origin": origin}).status_code == 403
    same = {"origin": origin, "sec-fetch-site": "same-origin"}
    assert ask("GET", "/api/frame?d=8", same).status_code == 403


def test_the_page_s_own_origin_gets_pictures():
    own = {"origin": f"http://127.0.0.1:{PORT}"}
    assert ask("GET", "/api/frame?d=8", own).status_code == 200


@pytest.mark.parametrize("site", ["same-origin", "none"])
def test_the_page_itself_gets_pictures(site):
    assert ask("GET", "/api/frame", {"sec-fetch-site": site}).status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        "/static/../server.py",
        "/static/..%2fserver.py",
        "/static/%2e%2e/server.py",
        "/static/%2fetc%2fpasswd",
        "/static//etc/passwd",
        "/static/server.py",
        "/static/modules.txt",
        "/static/app.js%00",
        "/static/",
        "/etc/passwd",
        "/api",
        "/api/frame/",
        "/docs",
    ],
)
def test_no_other_file_is_served(path):
    assert ask("GET", path).status_code in (404, 307)
    assert b"from __future__" not in ask("GET", path).content


def test_the_page_and_its_files_have_their_types():
    page = ask("GET", "/")
    assert page.status_code == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    script = ask("GET", "/static/app.js")
    assert script.headers["content-type"] == "text/javascript; charset=utf-8"
    assert ask("GET", "/static/style.css").headers["content-type"] == "text/css; charset=utf-8"


def test_pictures_are_not_kept_by_caches():
    assert ask("GET", "/api/frame").headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    ("wanted", "status"), [("", 400), ("exe", 400), ("../x", 400), ("csv", 200)]
)
def test_files_have_known_formats(wanted, status):
    answer = ask("GET", f"/api/save?format={wanted}&v=table&d=8&L=4")
    assert answer.status_code == status
    if status == 200:
        named = answer.headers["content-disposition"]
        assert named == 'attachment; filename="posenc-table.csv"'


def test_a_page_of_its_own_is_saved_with_the_state_of_the_screen():
    answer = ask("GET", "/api/save?format=html&v=table&d=8&k=1&w=900&h=500&theme=dark")
    named = answer.headers["content-disposition"]
    assert named == 'attachment; filename="posenc-explore.html"'
    assert answer.content == document([{"v": "table", "d": "8"}])


def test_a_port_that_is_taken_is_an_error_in_words():
    from posenc import ArgumentError

    with server.bound() as first:
        port = first.getsockname()[1]
        with pytest.raises(ArgumentError, match=f"{port}, which is in use"), server.bound(port):
            pass


def test_small_answers_are_not_held_back():
    """asyncio sets TCP_NODELAY only on sockets that name their protocol."""
    with server.bound() as listening:
        assert listening.proto == socket.IPPROTO_TCP


def test_it_listens_on_the_loopback_alone():
    with server.bound() as listening:
        assert listening.getsockname()[0] == "127.0.0.1"


def test_without_starlette_the_error_names_the_command(monkeypatch):
    from posenc import DependencyError

    monkeypatch.setitem(sys.modules, "starlette.applications", None)
    with pytest.raises(DependencyError, match=r"pip install 'posenc\[explore\]'"):
        app()


def test_without_uvicorn_the_error_names_the_command(monkeypatch):
    from posenc import DependencyError
    from posenc.cli import app as command

    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(DependencyError, match="pip install"), server.bound():
        pass
    said = CliRunner().invoke(command, ["explore", "--no-browser"])
    assert "http" not in said.output  # no address that nobody serves
    assert said.exit_code == 1


# --- the process ----------------------------------------------------------------------------------


def started(*arguments: str) -> tuple[subprocess.Popen, str]:
    """The command, once it has said where it is."""
    process = subprocess.Popen(
        [sys.executable, "-m", "posenc.cli", "explore", "--no-browser", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    line = process.stdout.readline()
    assert "http://127.0.0.1:" in line, process.stderr.read()
    return process, line.split("http://")[1].split("/")[0]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.costly
def test_it_serves_until_it_is_asked_to_end(number):
    process, address = started()
    try:
        with urllib.request.urlopen(f"http://{address}/api/frame?d=8", timeout=20) as answer:
            assert unpack(answer.read()).header["state"]["d"] == "8"
        process.send_signal(number)
        out, err = process.communicate(timeout=20)
    finally:
        process.kill()
    assert process.returncode == 0
    assert "has ended" in out
    assert err == ""


@pytest.mark.costly
def test_a_raw_request_without_a_host_or_with_nonsense_is_refused():
    process, address = started()
    try:
        name, port = address.split(":")
        for request in (b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01 nonsense\r\n\r\n"):
            with socket.create_connection((name, int(port)), timeout=10) as s:
                s.sendall(request)
                assert s.recv(4096).startswith(b"HTTP/1.1 400")
        time.sleep(0.1)
        with urllib.request.urlopen(f"http://{address}/", timeout=20) as answer:
            assert answer.status == 200
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)


HALF = b"GET /api/frame?d=8 HTTP/1.1\r\n"


def closed_within(connection: socket.socket, seconds: float) -> bool:
    """Whether the server ends a connection in some time, whatever it said before."""
    connection.settimeout(seconds)
    try:
        while connection.recv(65_536):
            pass
    except TimeoutError:
        return False
    except ConnectionError:
        pass
    return True


@pytest.mark.costly
def test_clients_that_keep_the_server_waiting_lose_their_connections(monkeypatch):
    monkeypatch.setattr(server, "PATIENCE", 0.4)
    with server.bound() as listening:
        host, port = listening.getsockname()
        named = f"Host: {host}:{port}\r\n".encode()
        whole = HALF + named + b"\r\n"
        running = []
        original = uvicorn.Server.run
        monkeypatch.setattr(
            uvicorn.Server, "run", lambda s, **k: running.append(s) or original(s, **k)
        )
        thread = threading.Thread(target=server.serve, args=(None, listening))
        thread.start()
        try:
            silent, half, after, body = (
                socket.create_connection((host, port), timeout=10) for _ in range(4)
            )
            half.sendall(HALF)
            after.sendall(whole + HALF)  # half of a second request
            body.sendall(HALF + named + b"Content-Length: 9\r\n\r\n1")
            crowd = [socket.create_connection((host, port), timeout=10) for _ in range(64)]
            for one in crowd:
                one.sendall(HALF)
            for one in (silent, half, after, body, *crowd):
                assert closed_within(one, 10)
                one.close()
            with socket.create_connection((host, port), timeout=10) as drip:
                ended = False
                for byte in HALF + named:
                    try:
                        drip.sendall(bytes([byte]))
                        time.sleep(0.05)
                    except ConnectionError:
                        ended = True
                        break
                assert ended, "a byte now and then moved the deadline"
            with urllib.request.urlopen(
                f"http://{host}:{port}/api/frame?d=8", timeout=20
            ) as answer:
                assert answer.status == 200
        finally:
            running[0].should_exit = True
            thread.join(timeout=20)


@pytest.mark.costly
def test_the_command_says_what_is_wrong_without_a_traceback(tmp_path):
    with server.bound() as taken:
        port = str(taken.getsockname()[1])
        cases = [
            (["--port", port], 2, "in use"),
            (["--port", "99999"], 2, "99999"),
            ([str(tmp_path / "absent.json")], 2, "is not there"),
            (["--states", "v=table"], 2, "--freeze"),
        ]
        for arguments, code, words in cases:
            done = subprocess.run(
                [sys.executable, "-m", "posenc.cli", "explore", "--no-browser", *arguments],
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            assert done.returncode == code, done.stderr
            assert words in " ".join(done.stderr.split())
            assert "Traceback" not in done.stderr
