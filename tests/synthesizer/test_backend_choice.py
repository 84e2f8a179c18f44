"""Choosing a backend is cheap and says early what is missing."""

import subprocess
import sys

import pytest

from kernelswarm.agents.synthesizer.backend import BACKENDS, Answer, Backend, check_backend, open_backend
from kernelswarm.schemas import InputError


def test_an_unknown_backend_is_bad_input():
    with pytest.raises(InputError, match=r"unknown synthesizer 'oracle': choose one of playbook, anthropic"):
        open_backend("oracle")


@pytest.mark.parametrize("name", BACKENDS)
def test_every_backend_fits_the_interface(name):
    assert isinstance(open_backend(name), Backend)


def test_an_answer_is_a_candidate_or_a_failure():
    with pytest.raises(ValueError, match="either"):
        Answer()


@pytest.mark.parametrize(
    ("environment", "sentence"),
    [
        ({}, "set ANTHROPIC_API_KEY, or use --synthesizer playbook"),
        ({"ANTHROPIC_API_KEY": "  "}, "set ANTHROPIC_API_KEY"),
        ({"ANTHROPIC_API_KEY": "sk one"}, "copy it again"),
        ({"ANTHROPIC_API_KEY": "sk-\u00e9"}, "copy it again"),
        ({"ANTHROPIC_API_KEY": "sk-1", "ANTHROPIC_BASE_URL": "localhost:80"}, "no http address"),
        ({"ANTHROPIC_API_KEY": "sk-1", "ANTHROPIC_BASE_URL": "http://"}, "no http address"),
        ({"ANTHROPIC_API_KEY": "sk-1", "ANTHROPIC_BASE_URL": "http://h:99999"}, "no http address"),
    ],
)
def test_bad_settings_are_one_sentence_before_a_session_opens(monkeypatch, environment, sentence):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(InputError, match=sentence) as caught:
        check_backend("anthropic", "claude-test")
    assert "sk-\u00e9" not in str(caught.value) and "sk one" not in str(caught.value)


def test_good_settings_pass(monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-1")
    check_backend("anthropic")
    with pytest.raises(InputError, match="no model's name"):
        check_backend("anthropic", "a model")


def test_choosing_and_checking_imports_no_library_that_takes_seconds(monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-1")
    code = (
        "import sys\n"
        "from kernelswarm.agents.synthesizer.backend import check_backend\n"
        "check_backend('anthropic', 'm')\n"
        "heavy = {'anthropic', 'autogen_core', 'autogen_agentchat', 'torch', 'pydantic'} & set(sys.modules)\n"
        "sys.exit(f'imported {sorted(heavy)}' if heavy else 0)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
