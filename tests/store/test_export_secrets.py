"""Secrets planted wherever a text can be are in no export, and what looks a little like one is left alone."""

import json
import random
from pathlib import Path

import duckdb
import pyarrow.parquet
import pytest
import zstandard
from story import Story, wire
from training_story import called, model_story

from given import candidate, problem
from kernelswarm.schemas import (
    CompilationFailed,
    CompileReport,
    Diagnostic,
    Evidence,
    Intent,
    Verdict,
    VerificationFailed,
    VerifyReport,
)
from kernelswarm.store import Log, log_path, write_export
from kernelswarm.store.export import FORMATS, Scrubber

KEY = "sk-ant-api03-" + "Zx9" * 12
SECRETS = {
    "api_key": KEY,
    "github": "ghp_" + "a1B2" * 9,
    "nkey": "SU" + "ABCD2345" * 7,
    "nats": "nats://swarm:hunter2pass@10.0.0.1:4222",
    "query": "http://10.0.0.1:8771/v1?version=2&key=wheatbread&x=1",
    "home": "/home/annabel/kernels/x.cu",
    "mac": "/Users/annabel/x.py",
    "windows": "C:\\Users\\annabel\\x.py",
    "escaped": '```json {"at": "\\/home\\/annabel\\/x"} ```',
    "bearer": "Authorization: Bearer abcDEF123456.ghiJKL",
    "assigned": "export DEPLOY_TOKEN=s3cr3tvalue99",
    "quoted": "{'password': 'correct-horse-9'}",
    "environ": "environ({'HOME': '/srv/secretplace', 'AWS_REGION': 'eu-secret-1', 'LOGNAME': 'annabel'})",
    "pem": "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqh\nxyzzy\n-----END PRIVATE KEY-----",
}
GONE = (
    KEY,
    "ghp_",
    "ABCD2345ABCD",
    "hunter2pass",
    "wheatbread",
    "swarm:",
    "annabel",
    "abcDEF123456",
    "s3cr3tvalue99",
    "correct-horse-9",
    "secretplace",
    "eu-secret-1",
    "MIIEvQ",
    "xyzzy",
    "plugh-from-the-environment-7",
)
EVERYTHING = "\n".join(SECRETS.values()) + "\nplugh-from-the-environment-7"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MY_SERVICE_KEY", "plugh-from-the-environment-7")
    history = Story("planted-s1")
    history.open(problem=problem(source=f'"""{EVERYTHING}"""\n# SPDX-License-Identifier: MIT\n'))
    for number, ms in ((1, 2.0), (2, 1.0)):
        node = f"n{number}"
        history.plan(node, "", number, Intent.draft)
        history.say(candidate(f"# {number}\n'''{EVERYTHING}'''", rationale=EVERYTHING), node=node)
        history.time(node, ms, summary=EVERYTHING)
    diagnostics = (Diagnostic(severity="error", message=EVERYTHING, line=3),)
    report = CompileReport(ok=False, language="cpp", compiler="g++", diagnostics=diagnostics)
    history.say(CompilationFailed(report=report), node="n1")
    evidence = Evidence(message=EVERYTHING, expected=EVERYTHING)
    refused = VerifyReport(verdict=Verdict.wrong_numbers, isolation="process", evidence=evidence)
    history.say(VerificationFailed(report=refused), node="n1")
    history.plan("n3", "n2", 3, Intent.improve)
    history.say(called(EVERYTHING, EVERYTHING), node="n3")
    history.propose("n3")
    history.time("n3", 0.5)
    with Log.open(log_path(tmp_path)) as log:
        log.append(wire(history.envelopes + model_story()))
    return tmp_path


def everything_in(folder: Path) -> str:
    texts = []
    for path in sorted(folder.iterdir()):
        if path.suffix == ".parquet":
            texts.append(json.dumps(pyarrow.parquet.read_table(path).to_pylist(), default=str, ensure_ascii=False))
        elif path.suffix == ".zst":
            texts.append(zstandard.ZstdDecompressor().decompressobj().decompress(path.read_bytes()).decode())
        else:
            texts.append(path.read_text())
    return "\n".join(texts)


@pytest.mark.parametrize("format", FORMATS)
async def test_no_planted_secret_is_exported(home: Path, format: str) -> None:
    where = {"events": f"body <> '{KEY}'", "parquet": f"session <> '{KEY}'"}.get(format, f"node <> '{KEY}'")
    manifest = await write_export(home, format, home / "out", where=where)
    text = everything_in(home / "out")
    assert [secret for secret in GONE if secret in text] == []
    assert manifest.rows > 0 and manifest.redactions["api_key"] > 0 and manifest.redactions["environment"] > 0
    assert "planted-s1" in text and "[redacted:api_key]" in text
    assert {entry.licence for entry in manifest.problems} == {"MIT", "unknown"}
    if format == "events":
        assert 0 < manifest.redacted_events < manifest.rows


@pytest.mark.parametrize("format", FORMATS)
async def test_no_planted_secret_is_in_the_manifest(tmp_path: Path, format: str) -> None:
    history = Story("planted-s2")
    history.open(problem=problem(name=f"by-{KEY}", source=f"# SPDX-License-Identifier: {KEY}\n"))
    for number, ms in ((1, 2.0), (2, 1.0)):
        history.plan(f"n{number}", "", number, Intent.draft)
        history.say(candidate(f"# {number}\n"), node=f"n{number}")
        history.time(f"n{number}", ms)
    with Log.open(log_path(tmp_path)) as log:
        log.append(wire(history.envelopes))
    manifest = await write_export(tmp_path, format, tmp_path / "out")
    assert KEY not in everything_in(tmp_path / "out")
    assert [(entry.name, entry.licence) for entry in manifest.problems] == [
        ("by-[redacted:api_key]", "[redacted:api_key]")
    ]


SPELLINGS = [
    *(part for secret in SECRETS.values() for part in (secret, secret[: len(secret) // 2], secret[len(secret) // 2 :])),
    *("[redacted:secret]", "{", "}", "[", '"', "'", "\\", "\n", " ", "=", ": ", "@", "é", "TOKEN", "password", "/"),
    *(
        "ba\u017fic ",
        "BAS\u0130C ",
        "bas\u0131c ",
        "To\u212aen",
        "api_\u212aey",
        "abcDEF123456.gh",
        "bertrand",
        'pl"ugh\\7-é',
    ),
]


def test_what_duckdb_does_not_suspect_has_no_secret_however_it_is_spelled() -> None:
    draw = random.Random(7)
    scrubber = Scrubber(
        {"MY_KEY": 'pl"ugh\\7-é', "A_TOKEN": "0123456789abcdef"}, user="bertrand", home="/data/bertrand"
    )
    texts = ["".join(draw.choices(SPELLINGS, k=draw.randint(1, 4))) for _ in range(1500)]
    texts += [*SECRETS.values(), "x 0123456789abcdef y", "/data/bertrand/x"]
    spelled = []
    for number, text in enumerate(texts):
        inner = json.dumps({"in": text}, ensure_ascii=number % 2 == 0)
        line = json.dumps({text: [inner, text]}, ensure_ascii=number % 3 == 0)
        spelled.append(line.replace("/", "\\/") if number % 5 == 0 else line)
    sql = "SELECT regexp_matches(unnest(?), ?)"
    suspected = [row[0] for row in duckdb.execute(sql, [spelled, scrubber.suspicion]).fetchall()]
    assert 50 < suspected.count(False) < len(spelled) - 50
    for line, suspicious in zip(spelled, suspected, strict=True):
        clean, redacted = scrubber.message(line.encode())
        assert (suspicious or not redacted) and scrubber.message(line.encode(), suspicious=suspicious)[0] == clean, line


def test_secrets_inside_json_inside_json_leave_valid_json() -> None:
    inner = json.dumps({"messages": [EVERYTHING], "env": SECRETS})
    outer = json.dumps({"body": {"request": inner}}).encode()
    clean, redacted = Scrubber({}, user="", home="/").message(outer)
    assert redacted
    request = json.loads(json.loads(clean)["body"]["request"])
    assert [secret for secret in GONE[:-1] if secret in json.dumps(request)] == []
    assert "/x.py" in request["messages"][0] and "@10.0.0.1:4222" in request["messages"][0]


def test_what_is_clean_stays_as_it_is_byte_for_byte() -> None:
    data = b'{ "x": 1.50, "text": "no secret",\n "n": 12345678901234567890123 }'
    assert Scrubber({}, user="", home="/").message(data) == (data.replace(b"\n", b" "), False)


@pytest.mark.parametrize(
    "code",
    [
        "constexpr int MAX_TOKENS = 128; // tokens per block",
        "TOKEN = tl.program_id(0); key = keys[i]; secret_sauce(x)",
        "hit = query&key==wanted; f(&key, &token)",
        "BLOCK_KEY: tl.constexpr, num_tokens=num_tokens",
        "torch.ops.aten.mul.Tensor(x, y)  # https://pytorch.org/docs",
        "#include </usr/include/immintrin.h>",
        "@triton.jit\ndef kernel(x_ptr): # http://a.b/c and @property",
        "root = x.sqrt(); y = x / root",
        "PATH_LENGTH = 3; HOME_ROW = 2; USER=1",
        "for user in users: home/work",
    ],
)
def test_kernels_are_not_mistaken_for_secrets(code: str) -> None:
    scrubber = Scrubber({"KEY_PATH": "/usr/bin", "AUTH_MODE": "password"}, user="root", home="/root")
    assert scrubber.text(code) == code.replace("USER=1", "USER=[redacted:environment]")


@pytest.mark.parametrize("value", ["/9aZ+secret/that/begins/with/slash=", "correcthorsebatterystaple", "/" + "p" * 300])
def test_a_key_of_the_environment_is_found_whatever_it_looks_like(value: str) -> None:
    scrubber = Scrubber({"DB_PASSWORD": value}, user="", home="/")
    assert scrubber.text(f"connect('{value}')") == "connect('[redacted:environment]')"


def test_the_users_own_name_and_home_go_wherever_they_stand() -> None:
    scrubber = Scrubber({}, user="bertrand", home="/data/people/bertrand")
    assert scrubber.text("by bertrand in /data/people/bertrand/x, not bertrands_kernel") == (
        "by [redacted:user_name] in [redacted:home_path]/x, not bertrands_kernel"
    )
    assert scrubber.replacements == {"user_name": 1, "home_path": 1}
