"""compose.yaml: a cluster of three, a recorder, a swarm; its commands are commands this program has."""

from pathlib import Path

import pytest
import typer
import yaml

import kernelswarm
from kernelswarm.agents.registry import ROLES, parse_roles
from kernelswarm.cli.main import app
from kernelswarm.hardware.pool_files import load_pools

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
    config = (ROOT / "docs" / "nats-cluster.conf").read_text()
    assert "store_dir: /data" in config and f"nats://{node}:6222" in config
    assert service["command"][service["command"].index("--name") + 1] == node


@pytest.mark.parametrize("service", ["recorder", "swarm"])
def test_services_run_commands_that_exist_against_every_node(service: str) -> None:
    name, parameters = parsed(service)
    assert name == {"recorder": "record", "swarm": "swarm"}[service]
    assert parameters["nats"] == ",".join(f"nats://{node}:4222" for node in NODES)


def test_the_swarm_serves_every_role_of_a_pool_that_ships(tmp_path: Path) -> None:
    _, parameters = parsed("swarm")
    assert set(parse_roles(str(parameters["roles"]))) == set(ROLES)
    assert parameters["pool"] in load_pools(tmp_path)


def test_the_log_outlives_its_container() -> None:
    (mount,) = COMPOSE["services"]["recorder"]["volumes"]
    volume, folder = mount.split(":")
    assert volume in COMPOSE["volumes"]
    assert f"KERNELSWARM_HOME={folder}" in (ROOT / "Dockerfile").read_text()
