"""`gpuledger import`: every kind of file, once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpuledger.cli import main
from gpuledger.commands.import_files import KINDS

AT = "2026-10-05T12:00:00Z"
DIAGNOSED = {"tests": [{"name": "PCIe", "results": [{"gpu_id": "0", "status": "Pass"}]}]}
POD = {
    "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "a", "uid": "u"},
    "spec": {"nodeName": "n1", "containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]},
    "status": {"phase": "Running", "startTime": "2026-10-05T10:00:00Z"},
}  # fmt: skip
FILES = {
    "metrics": 'DCGM_FI_DEV_GPU_UTIL{UUID="GPU-a",gpu="0",Hostname="n1"} 40 1791201600000\n',
    "sacct": "JobID|Start|End|NodeList|AllocTRES|State\n"
    "1|2026-10-05T10:00:00|2026-10-05T11:00:00|n1|gres/gpu=1|COMPLETED\n",
    "slurm-json": json.dumps({"jobs": [], "errors": []}),
    "slurm-state": f"# {AT}\nNodeName=n1 Arch=x\n   Gres=gpu:h100:4\n   State=IDLE\n   CfgTRES=gres/gpu=4\n",
    "kube-state": json.dumps(POD),
    "allocations": "start,end,gpus,workload\n2026-10-05T10:00:00Z,2026-10-05T11:00:00Z,1,w\n",
    "inventory": "node,gpus,from,to\nn1,4,2026-10-05T00:00:00Z,2026-10-06T00:00:00Z\n",
    "calendar": f"node,state,from,to\nn1,repair,{AT},2026-10-05T13:00:00Z\n",
    "acceptance": json.dumps({"DCGM GPU Diagnostic": {"test_categories": [DIAGNOSED]}}),
}
OPTIONS = {"kube-state": ["--at", AT], "acceptance": ["--at", AT, "--node", "n1"]}


@pytest.fixture
def config(tmp_path: Path) -> list[str]:
    text = 'currency: USD\nsources: []\nrates: [{model: "*", on_demand: "1.00"}]\n'
    (tmp_path / "gpuledger.yaml").write_text(text)
    return ["--config", str(tmp_path / "gpuledger.yaml")]


def test_every_kind_that_can_be_imported_has_a_case() -> None:
    assert FILES.keys() == KINDS.keys()


@pytest.mark.parametrize("kind", FILES)
def test_a_file_is_taken_in_once(
    kind: str, tmp_path: Path, config: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "file"
    file.write_text(FILES[kind])
    command = ["import", kind, *config, *OPTIONS.get(kind, []), str(file)]
    assert main(command) == 0, capsys.readouterr().err
    assert "from 1 sources (0 unchanged)" in capsys.readouterr().out
    assert main(command) == 0
    assert capsys.readouterr().out == "nothing new (1 unchanged)\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sacct", "--node", "n1"], "import sacct: --node means nothing for a sacct source"),
        (["acceptance", "--at", "noon"], "import acceptance: --at "),
    ],
)
def test_what_says_nothing_of_a_kind_is_refused(
    arguments: list[str], message: str, tmp_path: Path, config: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("x")
    assert main(["import", *arguments, *config, str(tmp_path / "file")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line


@pytest.mark.parametrize("kind", ["prometheus", "slurmrestd", "kube_state"])
def test_a_server_is_no_file_that_is_missing(
    kind: str, tmp_path: Path, config: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    text = f"currency: USD\nsources: [{{{kind}: 'http://127.0.0.1:1'}}]\nrates: [{{model: '*', on_demand: '1.00'}}]\n"
    (tmp_path / "gpuledger.yaml").write_text(text)
    assert main(["check", *config]) == 0
    assert "no such file" not in capsys.readouterr().err
