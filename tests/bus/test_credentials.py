"""A server that lets in only whom it knows, over TLS: what gets through, and what is said to those who do not."""

import re
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from servers import certificates, jwt, nats_server, seed
from waiting import LIMIT_S

from kernelswarm.bus import Bus, ConnectOptions, connecting_with
from kernelswarm.cli.main import run
from kernelswarm.schemas import BusError, InputError

USERS = "authorization { users: [{user: ann, password: secret}] }"


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return certificates(tmp_path_factory.mktemp("keys"))


def tls(keys: dict[str, Path], *, verify: bool) -> str:
    return (
        f'tls {{ cert_file: "{keys["server"]}", key_file: "{keys["server_key"]}", '
        f'ca_file: "{keys["ca"]}", verify: {str(verify).lower()} }}\n'
    )


async def works(url: str, event, options: ConnectOptions | None = None) -> bool:
    async with await Bus.connect(url, name="test", options=options) as bus:
        await bus.publish(event())
        async with bus.consume_round_robin("cpu", "compiler", [type(event().event())]) as consumer:
            await (await anext(consumer)).ack()
        return len(await bus.history(None)) >= 1


async def test_tls_with_user_password_and_a_certificate_of_ones_own(tmp_path, keys, event):
    async with nats_server(tmp_path, tls(keys, verify=True) + USERS) as port:
        url = f"tls://ann:secret@127.0.0.1:{port}"
        mine = ConnectOptions(ca=str(keys["ca"]), cert=str(keys["client"]), key=str(keys["client_key"]))
        assert await works(url, event, mine)
        with connecting_with(ca=str(keys["ca"]), cert=str(keys["client"]), key=str(keys["client_key"])):
            assert await works(url.replace("tls:", "nats:"), event)


Refused = Callable[..., Awaitable[str]]


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch) -> Refused:
    """What is said to somebody who is not let in: after a moment, or on a slow machine after a longer one."""

    async def connect(url: str, options: ConnectOptions | None = None) -> str:
        seconds, message = 0.3, "it stays silent"
        while "it stays silent" in message and seconds < LIMIT_S:
            monkeypatch.setattr("kernelswarm.bus.link.CONNECT_SECONDS", seconds)
            with pytest.raises(BusError) as caught:
                await Bus.connect(url, name="test", options=options)
            seconds, message = 4 * seconds, str(caught.value)
        return message

    return connect


async def test_those_who_are_not_let_in_hear_why_and_what_to_give(tmp_path, keys, refused: Refused):
    options = ConnectOptions(ca=str(keys["ca"]))
    async with nats_server(tmp_path / "tls", tls(keys, verify=False) + USERS) as port:
        assert re.search("not trusted.*--tls-ca", await refused(f"tls://ann:secret@127.0.0.1:{port}"))
        for url in (f"tls://ann:wrong@127.0.0.1:{port}", f"tls://127.0.0.1:{port}"):
            message = await refused(url, options)
            assert re.search("refuses these credentials.*--creds", message) and "wrong" not in message
    async with nats_server(tmp_path / "mutual", tls(keys, verify=True)) as port:
        assert re.search("certificate|no NATS server answers", await refused(f"tls://127.0.0.1:{port}", options))


async def test_a_token_in_the_url(tmp_path, event):
    async with nats_server(tmp_path, "authorization { token: sesame }") as port:
        assert await works(f"nats://sesame@127.0.0.1:{port}", event)


async def test_the_seed_of_an_nkey(tmp_path, event):
    nkeys = pytest.importorskip("nkeys")
    mine = seed(nkeys.PREFIX_BYTE_USER)
    public = nkeys.from_seed(bytearray(mine)).public_key.decode()
    (tmp_path / "user.nk").write_bytes(mine + b"\n")
    async with nats_server(tmp_path, f"authorization {{ users: [{{ nkey: {public} }}] }}") as port:
        assert await works(f"nats://127.0.0.1:{port}", event, ConnectOptions(credentials=str(tmp_path / "user.nk")))


async def test_a_credentials_file_with_a_jwt(tmp_path, event):
    nkeys = pytest.importorskip("nkeys")
    kinds = ("OPERATOR", "ACCOUNT", "ACCOUNT", "USER")
    operator, account, system, user = (
        nkeys.from_seed(bytearray(seed(getattr(nkeys, f"PREFIX_BYTE_{kind}")))) for kind in kinds
    )

    def public(key) -> str:
        return key.public_key.decode()

    free = {"subs": -1, "data": -1, "payload": -1}
    limits = {**free, "imports": -1, "exports": -1, "conn": -1, "leaf": -1, "mem_storage": -1, "disk_storage": -1}
    limits |= {"streams": -1, "consumer": -1}

    def account_claims(key, limits) -> str:
        nats = {"type": "account", "version": 2, "limits": limits}
        return f"{public(key)}: {jwt({'name': 'an account', 'sub': public(key), 'nats': nats}, operator)}"

    theirs = jwt({"name": "op", "sub": public(operator), "nats": {"type": "operator", "version": 2}}, operator)
    mine = jwt({"name": "ann", "sub": public(user), "nats": {"type": "user", "version": 2, **free}}, account)
    config = (
        f"operator: {theirs}\nsystem_account: {public(system)}\nresolver: MEMORY\n"
        f"resolver_preload: {{ {account_claims(account, limits)}, {account_claims(system, {'conn': -1})} }}\n"
    )
    (tmp_path / "ann.creds").write_text(
        f"-----BEGIN NATS USER JWT-----\n{mine}\n------END NATS USER JWT------\n\n"
        f"-----BEGIN USER NKEY SEED-----\n{user.seed.decode()}\n------END USER NKEY SEED------\n"
    )
    async with nats_server(tmp_path, config) as port:
        assert await works(f"nats://127.0.0.1:{port}", event, ConnectOptions(credentials=str(tmp_path / "ann.creds")))


def test_a_file_that_holds_no_credentials(tmp_path):
    (tmp_path / "notes.txt").write_text("buy milk")
    with pytest.raises(InputError, match=r"notes\.txt is no credentials file"):
        ConnectOptions(credentials=str(tmp_path / "notes.txt")).arguments()


@pytest.mark.parametrize("command", [("swarm",), ("record",), ("sql", "SELECT 1"), ("sessions",), ("show", "s1")])
def test_every_command_that_connects_takes_them(command, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("KERNELSWARM_HOME", str(tmp_path))
    missing = str(tmp_path / "no.creds")
    assert run([*command, "--nats", "nats://127.0.0.1:1", "--creds", missing]) == 2
    assert "no.creds" in capsys.readouterr().err
    monkeypatch.setenv("NATS_CA", str(tmp_path / "no.pem"))
    assert run([*command, "--nats", "nats://127.0.0.1:1"]) == 2
    assert "no.pem" in capsys.readouterr().err
