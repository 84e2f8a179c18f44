import asyncio
import random
import socket
from collections.abc import Iterator

import pytest
from waiting import within

from kernelswarm.bus import Bus, ConnectOptions
from kernelswarm.bus.options import servers, shown
from kernelswarm.schemas import BusError, InputError
from kernelswarm.tests.chaos.wire import Wire


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port that nobody listens on, and that nobody else gets meanwhile."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]


async def test_nobody_there(closed_port, monkeypatch):
    monkeypatch.setattr("kernelswarm.bus.link.CONNECT_SECONDS", 0.5)
    with pytest.raises(BusError, match=r"no NATS server answers at nats://127\.0\.0\.1:\d+ .*--nats"):
        await within(Bus.connect(f"nats://127.0.0.1:{closed_port}", name="test"))


async def test_something_else_is_there(monkeypatch):
    monkeypatch.setattr("kernelswarm.bus.link.CONNECT_SECONDS", 0.5)
    silent = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", 0)
    port = silent.sockets[0].getsockname()[1]
    with pytest.raises(BusError, match="no NATS server answers"):
        await within(Bus.connect(f"nats://127.0.0.1:{port}", name="test"))
    silent.close()
    await silent.wait_closed()


async def test_a_service_waits_for_a_server_that_comes_later(url, monkeypatch):
    monkeypatch.setattr("kernelswarm.bus.link.CONNECT_SECONDS", 0.3)
    wire = Wire(url)
    await wire.open()
    wire.cut()
    async with await within(Bus.connect(wire.url, name="test", waiting=wire.heal)) as bus:
        assert await bus.workers(0.01) == []
    await wire.close()


@pytest.mark.parametrize("url", ["", "localhost:4222", "http://x:1", "nats://", "nats://x:port", "nats://a:1,nonsense"])
async def test_an_address_that_is_none(url):
    with pytest.raises(InputError, match="NATS server"):
        await Bus.connect(url, name="test")


async def test_a_connection_draws_none_of_the_programs_random_numbers(url):
    before = random.getstate()
    async with await within(Bus.connect(f"{url},{url.replace('127.0.0.1', 'localhost')}", name="test")) as bus:
        await bus.workers(0.01)
    assert random.getstate() == before


def test_several_servers_of_a_cluster():
    assert servers("nats://a:1, nats://b:2") == ["nats://a:1", "nats://b:2"]


@pytest.mark.parametrize("url", ["nats://user:secret@host:4222", "nats://secret@host:4222"])
def test_passwords_are_not_shown(url):
    assert shown(url) == "nats://host:4222"


def test_options_come_from_the_environment():
    options = ConnectOptions.from_environment({"KERNELSWARM_NATS_CA": "ca.pem", "KERNELSWARM_NATS_REPLICAS": "3"})
    assert options == ConnectOptions(ca="ca.pem", replicas=3)
    with pytest.raises(InputError, match="REPLICAS is '2'"):
        ConnectOptions.from_environment({"KERNELSWARM_NATS_REPLICAS": "2"})


async def test_credentials_that_are_not_there(tmp_path):
    for options in (
        ConnectOptions(credentials=str(tmp_path / "no.creds")),
        ConnectOptions(ca=str(tmp_path / "no.pem")),
        ConnectOptions(key=str(tmp_path / "no.key")),
    ):
        with pytest.raises(InputError, match="not a file"):
            await Bus.connect("nats://127.0.0.1:1", name="test", options=options)


async def test_tls_files_that_are_none(tmp_path):
    (tmp_path / "ca.pem").write_text("not a certificate")
    with pytest.raises(InputError, match="TLS"):
        await Bus.connect("tls://127.0.0.1:1", name="test", options=ConnectOptions(ca=str(tmp_path / "ca.pem")))
