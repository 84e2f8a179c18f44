"""Choosing authors is cheap and says early what is missing."""

import subprocess
import sys

import pytest

from kernelswarm.agents.synthesizer.authors import check_authors, parse_authors, spelled
from kernelswarm.agents.synthesizer.backend import BACKENDS, Answer, Backend, open_backend
from kernelswarm.schemas import AuthorShare, InputError
from kernelswarm.sessions.search_options import SearchOptions, given


def shares(text, **given):
    return [(author.name, author.share) for author in parse_authors(text, **given)]


def test_one_author_or_several_with_shares():
    assert shares("generator") == shares("playbook") == [("playbook", 1)]
    assert shares("generator, anthropic:2,openai") == [("playbook", 1), ("anthropic", 2), ("openai", 1)]
    assert spelled(parse_authors("generator,anthropic:2")) == "playbook:1,anthropic:2"
    assert parse_authors(spelled(parse_authors("generator,anthropic:2"))) == parse_authors("generator,anthropic:2")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("oracle", r"unknown author 'oracle': choose one of generator, anthropic, openai"),
        ("", "no author: choose"),
        (" , ", "no author: choose"),
        ("generator:0", "a share is a number from 1 to 100"),
        ("generator:-1", "a share is a number"),
        ("generator:1.5", "a share is a number"),
        ("generator:²", "a share is a number"),
        ("generator:", "a share is a number"),
        ("generator:101", "a share is a number"),
        ("generator,playbook", "'generator' is named twice: give it one share, as in generator:2"),
        ("generator,,", "authors 'generator,,': a name is missing beside a comma"),
    ],
)
def test_what_names_no_author_is_bad_input(text, sentence):
    with pytest.raises(InputError, match=sentence):
        SearchOptions(synthesizer=text).check()


def test_an_empty_author_is_refused_and_one_that_is_left_out_is_not():
    with pytest.raises(InputError, match="no author: choose"):
        SearchOptions(**given({"author": "", "synthesizer": ""})).check()
    assert given({"author": None}) == {} and given({"author": "openai", "synthesizer": ""})["synthesizer"] == "openai"


def test_models_go_to_the_authors_that_ask_them():
    assert parse_authors("generator", "analyst=openai:m") == (AuthorShare(name="playbook"),)
    assert parse_authors("generator,openai", "qwen3:8b")[1].model == "qwen3:8b"
    both = parse_authors("anthropic,openai", "anthropic=a,openai=b", "http://localhost:8000/v1")
    assert [(author.model, author.base_url) for author in both] == [("a", ""), ("b", "http://localhost:8000/v1")]
    assert parse_authors("anthropic", base_url="http://h/v1")[0].base_url == "http://h/v1"


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"text": "anthropic,openai", "model": "m"}, "write anthropic=NAME,openai=NAME"),
        ({"text": "anthropic", "model": "openai=m"}, "with one of anthropic"),
        ({"text": "anthropic,openai", "model": "anthropic="}, "write AUTHOR=NAME"),
        ({"text": "generator", "base_url": "http://h"}, "add openai"),
        ({"text": "generator", "model": "m"}, "model 'm': none of generator asks a model; add --author anthropic"),
        ({"text": "openai", "base_url": "http://user:secret@h"}, "a user or a password"),
        ({"text": "generator", "base_url": "http://user:secret@h"}, "a user or a password"),
        ({"text": "openai", "base_url": "http://h/v1?key=secret"}, r"'http://h/v1' with a query.*OPENAI_API_KEY"),
        ({"text": "anthropic", "base_url": "http://h/v1#secret"}, r"'http://h/v1' with a query or a fragment"),
        ({"text": "openai", "base_url": "http://[secret@h"}, "'an address', which is no http address"),
        ({"text": "openai", "base_url": "ftp://h?secret"}, "'ftp://h', which is no http address"),
    ],
)
def test_a_model_or_an_address_that_fits_no_author_is_bad_input(given, sentence):
    with pytest.raises(InputError, match=sentence) as caught:
        parse_authors(**given)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("author", ["outside", "generator", "generator,outside"])
@pytest.mark.parametrize(
    ("limit", "named"),
    [({"max_cost": 2.0}, "max cost 2.0"), ({"max_cost": 2.5, "max_tokens": 9000}, "max cost 2.5 and max tokens 9000")],
)
def test_a_limit_on_models_is_refused_where_none_is_asked(author, limit, named):
    names = author.replace(",", ", ")
    with pytest.raises(InputError, match=f"^{named}: none of {names} asks a model, and no role does; add --author"):
        SearchOptions(synthesizer=author.replace("generator", "playbook"), **limit).check()
    SearchOptions(synthesizer="outside", model="analyst=anthropic:m", **limit).check()
    SearchOptions(synthesizer="outside,anthropic", **limit).check()


@pytest.mark.parametrize("name", BACKENDS)
def test_every_backend_fits_the_interface(name):
    assert isinstance(open_backend(name), Backend)


def test_an_answer_is_a_candidate_or_a_failure():
    with pytest.raises(ValueError, match="either"):
        Answer()


@pytest.mark.parametrize(
    ("environment", "sentence"),
    [
        ({}, "set {}_API_KEY, or use --author generator"),
        ({"API_KEY": "  "}, "set {}_API_KEY"),
        ({"API_KEY": "sk one"}, "copy it again"),
        ({"API_KEY": "sk-\u00e9"}, "copy it again"),
        ({"API_KEY": "sk-1", "BASE_URL": "localhost:80"}, "no http address"),
        ({"API_KEY": "sk-1", "BASE_URL": "http://"}, "no http address"),
        ({"API_KEY": "sk-1", "BASE_URL": "http://h:99999"}, "no http address"),
        ({"API_KEY": "sk-1", "BASE_URL": "http://h/v1?key=sk one"}, "{}_BASE_URL is 'http://h/v1' with a query"),
    ],
)
@pytest.mark.parametrize("author", ["anthropic", "openai"])
def test_bad_settings_are_one_sentence_before_a_session_opens(monkeypatch, author, environment, sentence):
    for name, value in environment.items():
        monkeypatch.setenv(f"{author.upper()}_{name}", value)
    with pytest.raises(InputError, match=sentence.format(author.upper())) as caught:
        check_authors(parse_authors(f"generator,{author}", "m"))
    assert "sk-\u00e9" not in str(caught.value) and "sk one" not in str(caught.value)


def test_good_settings_pass(monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-1")
    check_authors(parse_authors("anthropic"))
    check_authors(parse_authors("openai", "any", "http://localhost:8000/v1"))
    with pytest.raises(InputError, match="no model's name"):
        check_authors(parse_authors("anthropic", "a model"))


def test_choosing_and_checking_imports_no_library_that_takes_seconds(monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-1")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
    code = (
        "import sys\n"
        "from kernelswarm.agents.synthesizer.authors import check_authors, parse_authors\n"
        "check_authors(parse_authors('generator,anthropic:2,openai', 'anthropic=m,openai=n'))\n"
        "heavy = {'anthropic', 'openai', 'autogen_core', 'autogen_agentchat', 'torch', 'pydantic', 'httpx2'}\n"
        "heavy &= set(sys.modules)\n"
        "sys.exit(f'imported {sorted(heavy)}' if heavy else 0)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
