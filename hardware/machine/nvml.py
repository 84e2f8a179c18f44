"""NVIDIA's devices as the driver's management library describes them: without torch, and without waking a device."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ...schemas import Accelerator, PoolError, Schema


class InstalledGpus(Schema, frozen=True, kw_only=True):
    """Devices and driver of this machine."""

    accelerators: tuple[Accelerator, ...]
    driver: str
    """Version of the driver: ``580.159.04``."""
    cuda: str
    """Newest CUDA that the driver runs: ``13.0``."""


class Clocks(Schema, frozen=True, kw_only=True):
    """State of a device at one moment."""

    clock_mhz: int
    """Of the multiprocessors."""
    memory_clock_mhz: int
    temperature_c: int
    power_watts: float
    throttled: tuple[str, ...]
    """Why the clock is held down, empty if it is not: ``power``, ``heat``, ``hardware``."""


def find_devices() -> InstalledGpus:
    """NVIDIA's devices on this machine.

    Raises:
        PoolError: there is none that works; one sentence with the way out.
    """
    with _library() as nvml:
        count = nvml.nvmlDeviceGetCount()
        if not count:
            raise PoolError("no NVIDIA GPU is on this machine: use another pool, or a machine that has one")
        devices = tuple(_device(nvml, index) for index in range(count))
        number = nvml.nvmlSystemGetCudaDriverVersion_v2()
        return InstalledGpus(
            accelerators=devices,
            driver=_text(nvml.nvmlSystemGetDriverVersion()),
            cuda=f"{number // 1000}.{number % 1000 // 10}",
        )


def read_clocks(uuid: str) -> Clocks:
    """State of the device ``uuid`` now. Reading it does not disturb what runs there.

    Raises:
        PoolError: it cannot be asked.
    """
    with _library() as nvml:
        handle = nvml.nvmlDeviceGetHandleByUUID(uuid)
        return Clocks(
            clock_mhz=_asked(nvml, 0, nvml.nvmlDeviceGetClockInfo, handle, nvml.NVML_CLOCK_SM),
            memory_clock_mhz=_asked(nvml, 0, nvml.nvmlDeviceGetClockInfo, handle, nvml.NVML_CLOCK_MEM),
            temperature_c=_asked(nvml, 0, nvml.nvmlDeviceGetTemperature, handle, nvml.NVML_TEMPERATURE_GPU),
            power_watts=_asked(nvml, 0, nvml.nvmlDeviceGetPowerUsage, handle) / 1000,
            throttled=_throttled(nvml, _asked(nvml, 0, nvml.nvmlDeviceGetCurrentClocksEventReasons, handle)),
        )


def read_used_bytes(uuid: str) -> int:
    """Bytes of the device's memory that processes have taken, and the driver itself.

    Raises:
        PoolError: it cannot be asked.
    """
    with _library() as nvml:
        return int(nvml.nvmlDeviceGetMemoryInfo(nvml.nvmlDeviceGetHandleByUUID(uuid)).used)


@contextmanager
def _library() -> Iterator[Any]:
    try:
        import pynvml
    except ImportError:
        raise PoolError("NVIDIA's devices cannot be looked for: `pip install nvidia-ml-py`") from None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        raise PoolError(
            f"no NVIDIA driver answers on this machine ({error}): use another pool, or install it"
        ) from None
    try:
        yield pynvml
    except pynvml.NVMLError as error:
        raise PoolError(f"NVIDIA's driver refuses to describe its devices ({error}): see `nvidia-smi`") from None
    finally:
        pynvml.nvmlShutdown()


def _device(nvml: Any, index: int) -> Accelerator:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    major, minor = nvml.nvmlDeviceGetCudaComputeCapability(handle)
    return Accelerator(
        index=index,
        name=_text(nvml.nvmlDeviceGetName(handle)),
        uuid=_text(nvml.nvmlDeviceGetUUID(handle)),
        target=f"sm_{major}{minor}",
        memory_bytes=int(nvml.nvmlDeviceGetMemoryInfo(handle).total),
        max_clock_mhz=_asked(nvml, 0, nvml.nvmlDeviceGetMaxClockInfo, handle, nvml.NVML_CLOCK_SM),
        max_memory_clock_mhz=_asked(nvml, 0, nvml.nvmlDeviceGetMaxClockInfo, handle, nvml.NVML_CLOCK_MEM),
        power_limit_watts=_asked(nvml, 0, nvml.nvmlDeviceGetEnforcedPowerLimit, handle) / 1000,
    )


def _asked(nvml: Any, otherwise: int, question: Any, *arguments: Any) -> int:
    """An answer that not every device, or virtual machine, gives."""
    try:
        return int(question(*arguments))
    except nvml.NVMLError:
        return otherwise


def _throttled(nvml: Any, reasons: int) -> tuple[str, ...]:
    names = {
        "power": nvml.nvmlClocksEventReasonSwPowerCap,
        "heat": nvml.nvmlClocksEventReasonSwThermalSlowdown | nvml.nvmlClocksThrottleReasonHwThermalSlowdown,
        "hardware": nvml.nvmlClocksThrottleReasonHwSlowdown | nvml.nvmlClocksThrottleReasonHwPowerBrakeSlowdown,
    }
    return tuple(name for name, bits in names.items() if reasons & bits)


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
