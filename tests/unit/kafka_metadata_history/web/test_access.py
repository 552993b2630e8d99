"""Who may ask: hosts, origins, tokens and cookies."""

import pytest
from starlette.testclient import TestClient

from kafka_metadata_history.web.access import COOKIE, Access, inside, is_loopback
from tests.support.web_lakes import config_of, pages, web_lake

TOKEN, OF_METRICS = "the-token-of-pages", "the-token-of-metrics"
BROWSER = {"Accept": "text/html", "Sec-Fetch-Mode": "navigate"}
GUARDED = Access(TOKEN, OF_METRICS, ("history.example.com",), is_https=True)
SAID = "https://history.example.com"


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("web")
    return config_of(folder, web_lake(folder / "lake"))


def asked(client: TestClient, path: str, **headers: str) -> int:
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    return client.get(path, headers=given).status_code


@pytest.mark.parametrize(
    ("host", "is_only_here"),
    [
        *[(each, True) for each in ("127.0.0.1", "127.8.8.8", "::1", "localhost")],
        *[(each, False) for each in ("8.8.8.8", "::", "10.0.0.1", "localhost.example.com", "")],
    ],
)
def test_loopback_is_what_only_this_machine_reaches(host: str, *, is_only_here: bool) -> None:
    assert is_loopback(host) == is_only_here


@pytest.mark.parametrize(
    ("host", "status"),
    [
        *[(each, 200) for each in ("127.0.0.1:8484", "localhost", "[::1]:8484")],
        *[(each, 421) for each in ("evil.example.com", "127.0.0.1.evil.example.com", "", "[")],
    ],
)
def test_without_a_token_only_names_of_this_machine_are_answered(
    config: str, host: str, status: int
) -> None:
    with pages(config) as client:
        assert asked(client, "/ask", host=host) == status


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "http://127.0.0.1:8484"}, 200),
        ({"Origin": "http://127.0.0.1:9999"}, 403),
        ({"Origin": "http://evil.example.com"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://["}, 403),
        ({"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors"}, 200),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, 200),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}, 403),
        ({"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors"}, 403),
    ],
)
def test_scripts_of_other_sites_are_refused_and_links_are_not(
    config: str, headers: dict[str, str], status: int
) -> None:
    with pages(config) as client:
        assert client.get("/ask", headers=headers).status_code == status


def test_a_program_shows_the_token_as_a_bearer(config: str) -> None:
    with pages(config, GUARDED, base=SAID) as client:
        answers = [
            asked(client, "/api", **more)
            for more in (
                {},
                {"Authorization": "Bearer wrong"},
                {"Authorization": TOKEN},
                {"Authorization": f"Bearer {OF_METRICS}"},
                {"Authorization": f"Bearer {TOKEN}"},
            )
        ]
        assert answers == [401, 401, 401, 401, 200]
        assert client.get("/api").json() == {
            "error": "a token is needed: Authorization: Bearer TOKEN, or log in"
        }
        assert asked(client, f"/api?token={TOKEN}") == 401
        assert client.get("/api").headers["www-authenticate"] == "Bearer"


def test_a_person_logs_in_once_and_comes_back_to_the_page(config: str) -> None:
    with pages(config, GUARDED, base=SAID) as client:
        sent = client.get("/ask/lag?since=1+hour", headers=BROWSER)
        assert sent.status_code == 303
        assert sent.headers["location"] == "/login?next=%2Fask%2Flag%3Fsince%3D1%2Bhour"
        form = client.get(sent.headers["location"])
        assert 'value="/ask/lag?since=1+hour"' in form.text
        next_ = {"next": "/ask/lag?since=1+hour"}
        assert client.post("/login", data={"token": "wrong", **next_}).status_code == 401
        done = client.post("/login", data={"token": TOKEN, **next_})
        assert (done.status_code, done.headers["location"]) == (303, "/ask/lag?since=1+hour")
        cookie = done.headers["set-cookie"]
        assert {"HttpOnly", "Secure", "SameSite=strict"} <= {*cookie.split("; ")}
        assert TOKEN not in cookie
        assert client.get("/", headers=BROWSER).status_code == 200
        assert "Log out" in client.get("/").text
        client.post("/logout")
        assert client.get("/", headers=BROWSER).status_code == 303


def test_a_cookie_of_another_token_is_none(config: str) -> None:
    with pages(config, GUARDED, base=SAID) as client:
        client.cookies.set(COOKIE, Access("before").cookie())
        assert client.get("/api").status_code == 401
        client.cookies.set(COOKIE, TOKEN)
        assert client.get("/api").status_code == 401


def test_a_script_is_not_sent_to_the_login(config: str) -> None:
    with pages(config, GUARDED, base=SAID) as client:
        headers = {"Accept": "text/html", "Sec-Fetch-Mode": "cors", "Sec-Fetch-Site": "same-origin"}
        assert client.get("/", headers=headers).status_code == 401


def test_what_is_open_beside_a_token(config: str) -> None:
    with pages(config, GUARDED, base=SAID) as client:
        assert [asked(client, path) for path in ("/healthz", "/login", "/static/pages.css")] == [
            200, 200, 200,
        ]  # fmt: skip
        assert [asked(client, path) for path in ("/changes", "/figures", "/api/openapi.json")] == [
            401, 401, 401,
        ]  # fmt: skip
        assert asked(client, "/", host="other.example.com") == 421
        assert asked(client, "/healthz", host="10.1.2.3:8484") == 200


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("/ask?since=1", "/ask?since=1"),
        *[
            (each, "/")
            for each in (
                "", "https://evil.example.com", "//evil.example.com", "/\\evil.example.com",
                "/a\\b", "javascript:alert(1)",
            )
        ],
    ],
)  # fmt: skip
def test_a_login_leads_to_these_pages_alone(given: str, found: str) -> None:
    assert inside(given) == found


def test_each_answer_says_what_a_browser_may_do(config: str) -> None:
    with pages(config) as client:
        for path in ("/", "/api", "/nothing", "/healthz"):
            headers = client.get(path).headers
            assert "script-src 'self'" in headers["content-security-policy"]
            assert "default-src 'none'" in headers["content-security-policy"]
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["cache-control"] == "no-store"


def test_a_name_is_known_however_it_is_written(config: str) -> None:
    access = Access(TOKEN, hosts=("History.Example.com",))
    with pages(config, access, base="https://history.example.com") as client:
        assert client.get("/login").status_code == 200


def test_a_token_is_in_no_text_of_its_own() -> None:
    assert TOKEN not in repr(GUARDED)
