"""``kernelswarm models``: keys, servers, prices, what was won. Prices of the user's own."""

import json
import time

import pytest

from kernelswarm.agents.synthesizer.authors import check_prices, model_authors, parse_authors
from kernelswarm.agents.synthesizer.model.prices import price_of, price_table
from kernelswarm.schemas import InputError


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch):
    for vendor in ("ANTHROPIC", "OPENAI"):
        for name in ("API_KEY", "BASE_URL"):
            monkeypatch.delenv(f"{vendor}_{name}", raising=False)


def test_without_a_key_it_says_so_in_a_sentence_and_shows_prices(kernelswarm):
    ran = kernelswarm("models", "--offline")
    assert ran.status == 0
    assert "set ANTHROPIC_API_KEY" in ran.out and "set OPENAI_API_KEY" in ran.out and "claude-opus-5-5" in ran.out


def test_as_json_it_is_one_object(kernelswarm, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret")
    ran = kernelswarm("models", "--offline", "--json")
    report = json.loads(ran.out)
    assert "sk-secret" not in ran.out
    anthropic, openai = report["authors"]
    assert (anthropic["author"], anthropic["problem"], anthropic["is_reachable"]) == ("anthropic", "", None)
    assert openai["problem"] and report["won"] == report["roles"] == []
    assert anthropic["price"]["output"] == 20.0 and anthropic["price"]["date"]


@pytest.mark.parametrize("url", ["http://user:pw@host/v1", "http://host/v1?key=pw", "ftp://host/pw"])
def test_an_address_that_is_none_is_bad_input(kernelswarm, url):
    ran = kernelswarm("models", "--base-url", url)
    assert ran.status == 2 and ("pw" not in ran.err or "no http address" in ran.err)


@pytest.mark.parametrize("vendor", ["OPENAI", "ANTHROPIC"])
def test_a_password_in_a_variable_is_refused_by_its_name(kernelswarm, monkeypatch, vendor):
    monkeypatch.setenv(f"{vendor}_API_KEY", "sk-secret")
    monkeypatch.setenv(f"{vendor}_BASE_URL", "http://user:pw@host/v1")
    ran = kernelswarm("models", "--offline", "--json")
    problem = next(author["problem"] for author in json.loads(ran.out)["authors"] if author["author"] == vendor.lower())
    assert problem.startswith(f"{vendor}_BASE_URL holds a user or a password, which the log would keep")
    assert "pw" not in problem.replace("password", "")


@pytest.mark.parametrize("status", [200, 401, 500])
async def test_a_server_is_asked_for_its_models(monkeypatch, status):
    from model_server import Failed, model_server

    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    body = {"object": "list", "data": [{"id": name, "object": "model"} for name in ("qwen", "llama", None, "\x1b[31m")]}
    async with model_server() as server:
        server.script = [Failed(status, body=json.dumps(body).encode() if status == 200 else b"{}")]
        _, openai = await model_authors(f"{server.url}/v1")
        assert server.heads[0][":line"].startswith("GET /v1/models")
    if status == 200:
        assert openai.is_reachable and openai.models == ("llama", "qwen") and openai.milliseconds > 0
    else:
        assert openai.is_reachable is False and str(status) in openai.problem
    assert "sk-secret" not in repr(openai)


async def test_imports_on_a_loaded_machine_are_not_the_server_s_time(monkeypatch):
    from model_server import Failed, model_server

    from kernelswarm.agents.synthesizer.model import backend, reachable

    def import_slowly(name, imported=backend._import_libraries):
        time.sleep(1.0)
        return imported(name)

    backend._import_libraries("openai")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setattr(backend, "_import_libraries", import_slowly)
    monkeypatch.setattr(reachable, "SECONDS", 0.9)
    async with model_server() as server:
        server.script = [Failed(200, body=b'{"object": "list", "data": [{"id": "qwen", "object": "model"}]}')]
        _, openai = await model_authors(f"{server.url}/v1")
    assert (openai.models, openai.problem) == (("qwen",), "") and openai.milliseconds < 900


def test_a_table_of_the_user_s_adds_to_the_one_that_ships(tmp_path):
    (tmp_path / "prices.toml").write_text(
        'date = "2027-01-01"\n[models]\n"mine" = { input = 1, output = 2.5 }\n"gpt-5.4" = { input = 9, output = 9 }\n'
    )
    table = price_table(tmp_path)
    assert table.find("mine-2").output == 2.5 and table.find("mine-2").date == "2027-01-01"
    assert table.find("mine").read == 1, "a cache without a price of its own is no cheaper"
    assert table.find("gpt-5.4").input == 9 and table.find("gpt-5.4-mini").input == 0.75
    assert table.find("mine2") is None and table.find("gpt-5.45") is None


@pytest.mark.parametrize(
    "text",
    [
        "models = 3",
        "[models",
        '[models]\n"m" = 3',
        '[models]\n"m" = { input = 1 }',
        '[models]\n"m" = { input = -1, output = 1 }',
        '[models]\n"m" = { input = true, output = 1 }',
        '[models]\n"m" = { input = inf, output = 1 }',
        '[models]\n"m" = { input = 1, output = 1, outptu = 2 }',
    ],
)
def test_a_table_that_cannot_be_used_is_named(tmp_path, text):
    (tmp_path / "prices.toml").write_text(text)
    with pytest.raises(InputError, match=r"prices\.toml"):
        price_table(tmp_path)


def test_a_limit_of_money_needs_a_price(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
    check_prices(parse_authors("generator,openai"), tmp_path)
    with pytest.raises(InputError, match=r"needs to know what 'new-model' costs.+--max-tokens"):
        check_prices(parse_authors("openai", "new-model"), tmp_path)
    check_prices(parse_authors("openai", "new-model", "http://localhost:8000/v1"), tmp_path)
    assert price_of("new-model", "http://127.0.0.1/v1").of(input_tokens=1000, output_tokens=1000) == 0.0


@pytest.mark.parametrize("option", [("--max-cost", "0"), ("--max-cost", "nan"), ("--max-tokens", "0")])
def test_limits_that_are_none_are_bad_input(kernelswarm, tmp_path, option):
    problem = tmp_path / "p.py"
    problem.write_text("shapes = {}\n")
    ran = kernelswarm("optimize", str(problem), *option)
    assert ran.status == 2 and "above 0" in ran.err
