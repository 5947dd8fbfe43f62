from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from exporter.main import main

ROOT = Path(__file__).parents[2]
FLEET = "gpus:\n  - {model: Tesla T4, count: 2, load: 0.5}\n"


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    path = tmp_path / "fleet.yaml"
    path.write_text(FLEET)
    return path


def test_one_pass_to_stdout(fleet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--fake", str(fleet), "--once", "--node-name", "n1", "--dcgm-names"]) == 0
    out = capsys.readouterr().out
    assert re.search(
        r'^gpuledger_power_watts\{node="n1",gpu="0",uuid="GPU-[^"]+",model="Tesla T4"\} \d', out, re.MULTILINE
    )
    assert "DCGM_FI_DEV_GPU_TEMP{" in out


def test_static_owners_are_shares_and_labels(fleet: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    owners = tmp_path / "owners.yaml"
    owners.write_text(
        "owners:\n- {device: 0, workload: wall, user: ada}\n- {device: 1, job: 1}\n- {device: 1, job: 2}\n"
    )
    assert main(["--fake", str(fleet), "--once", "--static-owners", str(owners), "--owner-labels"]) == 0
    out = capsys.readouterr().out
    shares = re.findall(
        r'^gpuledger_owner_share_ratio\{.*gpu="(\d)".*?((?:user|hpc_job)="\w+").*\} (\S+)$', out, re.MULTILINE
    )
    assert shares == [("0", 'user="ada"', "1.0"), ("1", 'hpc_job="1"', "0.5"), ("1", 'hpc_job="2"', "0.5")]
    watts = re.findall(r'^gpuledger_power_watts\{.*gpu="(\d)"(.*)\}', out, re.MULTILINE)
    assert ['workload="wall"' in rest for _, rest in watts] == [True, False]


def test_one_pass_of_a_profiled_card_has_its_profile(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "fleet.yaml"
    path.write_text("gpus:\n  - {model: NVIDIA H100 80GB HBM3, load: 0.5}\n")
    assert main(["--fake", str(path), "--once"]) == 0
    assert "gpuledger_sm_active_ratio{" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["--fake", "nowhere.yaml"], 2, "nowhere.yaml: cannot be read"),
        (["--listen", "9836", "--fake", "{fleet}"], 2, "--listen 9836: HOST:PORT was expected"),
        (["--owners", "lsf", "--fake", "{fleet}"], 2, "'lsf' is no source"),
        (["--owners", "static", "--fake", "{fleet}"], 2, "--static-owners FILE"),
        (["--owners", "none,static", "--fake", "{fleet}"], 2, "--owners none,static: none stands alone"),
        (["--owners", "slurm,auto", "--fake", "{fleet}"], 2, "auto stands alone"),
        (["--owners", "slurm,slurm", "--fake", "{fleet}"], 2, "slurm stands once"),
        (["--owners", "none", "--static-owners", "{fleet}", "--fake", "{fleet}"], 2, "leaves `static` out"),
        (["--static-owners", "no.yaml", "--fake", "{fleet}"], 2, "no.yaml: cannot be read"),
        (["--static-owners", "{fleet}", "--fake", "{fleet}"], 2, "unknown key 'gpus'; use one of owners"),
        (["--listen", "127.0.0.1:²", "--fake", "{fleet}"], 2, "HOST:PORT was expected"),
        (["--listen", "127.0.0.1:65536", "--fake", "{fleet}"], 2, "HOST:PORT was expected"),
        (["--listen", "[::1:9836", "--fake", "{fleet}"], 2, "HOST:PORT was expected"),
        (["--listen", "::1:9836", "--fake", "{fleet}"], 2, "127.0.0.1:9836 or [::1]:9836"),
        (["--listen", "127.0.0.1:-1", "--fake", "{fleet}"], 2, "HOST:PORT was expected"),
        (["--kernel-log", "/", "--fake", "{fleet}"], 2, "a file, /dev/kmsg or journal was expected"),
        (["--web-config", "no.yml", "--fake", "{fleet}"], 2, "no.yml: cannot be read"),
        (["--counters", "no.csv", "--fake", "{fleet}"], 2, "no.csv: cannot be read"),
        (["--backend", "nvml"], 1, "use --fake FLEET.yaml"),
    ],
)
def test_what_is_wrong_is_one_line(
    fleet: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], status: int, message: str
) -> None:
    filled = [argument.replace("{fleet}", str(fleet)) for argument in arguments]
    assert main([*filled, "--once"]) == status
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line


@pytest.mark.parametrize(
    ("option", "values"),
    [
        ("--interval", ("0", "-1", "2h", "soon", "nan", "inf", "1e3", "9" * 400, "")),
        ("--expect", ("-1", "1.5", "nan", "inf", "1025", "9" * 5000, "1_0", "٣", "")),
        ("--max-connections", ("0", "-1", "nan", "1e3", "1000001", "")),
    ],
)
def test_a_number_out_of_its_range_is_bad_usage(
    fleet: Path, capsys: pytest.CaptureFixture[str], option: str, values: tuple[str, ...]
) -> None:
    for value in values:
        with pytest.raises(SystemExit) as stopped:
            main(["--fake", str(fleet), f"{option}={value}"])
        assert stopped.value.code == 2, value
        assert option in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gpus: [{modle: T4}]", "gpus[0]: unknown key 'modle'"),
        ("cards: []", "unknown key 'cards'"),
    ],
)
def test_a_wrong_fleet_says_where(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, message: str) -> None:
    path = tmp_path / "fleet.yaml"
    path.write_text(text)
    assert main(["--fake", str(path), "--once"]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("host", ["a..b", "x" * 300, "a b", "no.such.host.invalid"])
def test_a_host_that_there_isnt_is_one_line(fleet: Path, capsys: pytest.CaptureFixture[str], host: str) -> None:
    assert main(["--fake", str(fleet), "--listen", f"{host}:9836"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "choose another with --listen" in line


def test_a_port_in_use_is_one_line(fleet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert main(["--fake", str(fleet), "--listen", f"127.0.0.1:{taken.getsockname()[1]}"]) == 1
    assert "choose another with --listen" in capsys.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_running_exporter_answers_and_stops_when_told(fleet: Path, number: int) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "exporter.main", "--fake", str(fleet), "--listen", "127.0.0.1:0", "--interval", "1s"],
        cwd=ROOT, stderr=subprocess.PIPE, text=True, env={**os.environ, "NODE_NAME": "from-env"},
    )  # fmt: skip
    assert process.stderr is not None
    try:
        address = re.search(r"http://\S+", process.stderr.readline())
        assert address is not None
        with urllib.request.urlopen(address[0], timeout=10) as answer:
            assert answer.status == 200
    finally:
        process.send_signal(number)
    assert process.wait(10) == 0
    process.stderr.close()


@pytest.mark.parametrize("option", ["--fake", "--counters", "--web-config"])
def test_a_file_that_is_not_utf_8_is_named(
    option: str, fleet: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "latin1"
    path.write_bytes(b"gpus: \xff\n")
    others = [] if option == "--fake" else ["--fake", str(fleet)]
    more = ["--dcgm-names"] if option == "--counters" else []
    assert main([*others, *more, option, str(path), "--once"]) == 2
    assert f"{path}: byte 0xff is not UTF-8; save the file as UTF-8" in capsys.readouterr().err


def test_sighup_reads_the_web_configuration_again(fleet: Path, tmp_path: Path) -> None:
    config = tmp_path / "web.yml"
    config.write_text("http_server_config: {headers: {X-Frame-Options: deny}}\n")
    process = subprocess.Popen(
        [sys.executable, "-m", "exporter.main", "--fake", str(fleet), "--listen", "127.0.0.1:0",
         "--web-config", config],
        cwd=ROOT, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    try:
        address = re.search(r"http://\S+", process.stderr.readline())
        assert address is not None
        config.write_text("http_server_config: {headers: {X-Frame-Options: maybe, Y: z}}\n")
        process.send_signal(signal.SIGHUP)
        assert "unknown key 'Y'" in process.stderr.readline()
        with urllib.request.urlopen(address[0], timeout=10) as answer:
            assert answer.headers["X-Frame-Options"] == "deny"
    finally:
        process.send_signal(signal.SIGTERM)
    assert process.wait(10) == 0
    process.stderr.close()


def test_a_pretended_card_that_is_lost_is_expected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "fleet.yaml"
    path.write_text("gpus: [{model: Tesla T4, faults: [{kind: lost}]}, {model: Tesla T4}]\n")
    assert main(["--fake", str(path), "--once", "--node-name", "n"]) == 0
    out = capsys.readouterr().out
    assert 'gpuledger_devices_expected{node="n"} 2\n' in out
    assert 'gpuledger_devices_present{node="n"} 1\n' in out
