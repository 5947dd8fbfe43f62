"""Cards as the exporters show them, for the cases."""

from __future__ import annotations

H100 = "NVIDIA H100 80GB HBM3"
A = {"node": "n1", "gpu": "0", "uuid": "GPU-a", "model": H100}
B = {"node": "n1", "gpu": "1", "uuid": "GPU-b", "model": H100}
ON_A = ",".join(f'{name}="{value}"' for name, value in A.items())
ON_B = ",".join(f'{name}="{value}"' for name, value in B.items())
# Card B as dcgm-exporter shows it; the labels of its holder come and go.
DCGM_B = f'UUID="GPU-b",gpu="1",modelName="{H100}",Hostname="n1"'
NEW_DCGM_B = f'UUID="GPU-b",gpu="1",modelName="{H100}",hostname="n1"'
MINUTES = 500


def ours(on: str = ON_A, minutes: int = MINUTES) -> dict[str, str]:
    """A card that our exporter sees."""
    return {
        f"gpuledger_unowned_share_ratio{{{on}}}": f"1x{minutes}",
        f"gpuledger_device_up{{{on}}}": f"1x{minutes}",
    }


def dcgm(on: str = DCGM_B, minutes: int = MINUTES) -> dict[str, str]:
    """A card that dcgm-exporter sees."""
    return {f"DCGM_FI_DEV_GPU_TEMP{{{on}}}": f"40x{minutes}"}


def held(tenant_namespace: str, on: str = ON_A, minutes: int = MINUTES, pod: str = "p") -> dict[str, str]:
    """A card that a pod of a namespace holds."""
    return {
        f"gpuledger_unowned_share_ratio{{{on}}}": f"0x{minutes}",
        f'gpuledger_owner_share_ratio{{{on},namespace="{tenant_namespace}",pod="{pod}"}}': f"1x{minutes}",
    }
