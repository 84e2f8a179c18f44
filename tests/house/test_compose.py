"""compose.yaml: a cluster of three, a recorder, a swarm of two kinds; its commands are commands this program has."""

from pathlib import Path

import pytest
import typer
import yaml

import kernelswarm
from kernelswarm.agents.registry import ROLES, parse_roles
from kernelswarm.cli.main import app
from kernelswarm.hardware.pools.pool_files import load_pools

ROOT = Path(kernelswarm.__file__).parent
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text())
NODES = ("nats-1", "nats-2", "nats-3")


def parsed(service: str) -> tuple[str, dict[str, object]]:
    """Name and parameters of a service's command, as the command line itself reads them."""
    name, *arguments = COMPOSE["services"][service]["command"]
    group = typer.main.get_command(app)
    context = group.make_context("kernelswarm", [name, *arguments])
    command = group.get_command(context, name)  # type: ignore[attr-defined]
    return name, command.make_context(name, list(arguments), parent=context).params


@pytest.mark.parametrize("node", NODES)
def test_a_cluster_of_three_keeps_its_streams_on_disk(node: str) -> None:
    service = COMPOSE["services"][node]
    mounts = dict(volume.split(":")[:2] for volume in service["volumes"])
    assert mounts[node] == "/data" and node in COMPOSE["volumes"]
    config = (ROOT / "deploy" / "nats-cluster.conf").read_text()
    assert mounts["./deploy/nats-permissions.conf"] == "/etc/nats/nats-permissions.conf"
    assert "include ./nats-permissions.conf" in config
    assert "store_dir: /data" in config and f"nats://{node}:6222" in config
    assert service["command"][service["command"].index("--name") + 1] == node


COMMANDS = {"recorder": "record", "thinker": "swarm", "runner": "swarm", "submitter": "sessions"}


@pytest.mark.parametrize("service", COMMANDS)
def test_services_run_commands_that_exist_against_every_node_as_their_own_user(service: str) -> None:
    assert parsed(service)[0] == COMMANDS[service]
    url = COMPOSE["services"][service]["environment"]["KERNELSWARM_NATS"]
    password = f"${{KERNELSWARM_{service.upper()}_PASSWORD}}"
    assert url == ",".join(f"nats://{service}:{password}@{node}:4222" for node in NODES)


def test_every_user_has_a_password_that_the_servers_know() -> None:
    config = (ROOT / "deploy" / "nats-permissions.conf").read_text()
    for user in (*COMMANDS, "admin"):
        variable = f"KERNELSWARM_{user.upper()}_PASSWORD"
        assert f"{{ user: {user}, password: ${variable}" in config
        assert all(variable in COMPOSE["services"][node]["environment"] for node in NODES)


def test_the_swarm_serves_every_role_of_a_pool_that_ships(tmp_path: Path) -> None:
    swarms = {service: parsed(service)[1] for service in ("thinker", "runner")}
    roles = {service: set(parse_roles(str(parameters["roles"]))) for service, parameters in swarms.items()}
    assert roles["thinker"] | roles["runner"] == set(ROLES)
    assert roles["runner"] == {role for role in ROLES if ROLES[role].needs_device}
    assert {parameters["pool"] for parameters in swarms.values()} <= set(load_pools(tmp_path))


def test_the_log_outlives_its_container() -> None:
    (mount,) = COMPOSE["services"]["recorder"]["volumes"]
    volume, folder = mount.split(":")
    assert volume in COMPOSE["volumes"]
    assert f"KERNELSWARM_HOME={folder}" in (ROOT / "Dockerfile").read_text()
