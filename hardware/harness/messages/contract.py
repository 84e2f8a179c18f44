"""Messages between the supervisor and the contract suite's process."""

from ....schemas import ContractProperty, Schema


class CheckContract(Schema, frozen=True, kw_only=True, tag="check_contract"):
    """Hold a finished file against the contract suite (:mod:`..dropin.contract`)."""

    source: str
    artifacts: str
    """Folder of compiled artifacts."""
    built: tuple[str, ...] = ()
    """Those of a file that compiles for itself."""
    ahead: tuple[str, ...] = ()
    """Those with kernels for Triton's cache."""


class ContractChecked(Schema, frozen=True, kw_only=True, tag="contract_checked"):
    """What came of it."""

    properties: tuple[ContractProperty, ...]
