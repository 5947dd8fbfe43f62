from __future__ import annotations

import os
import select
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

from exporter.devices import Device, XidEvent
from exporter.errors import SourceError, UsageError
from exporter.families import FamilyBuilder
from exporter.identity import Identities
from exporter.kernel_log import KernelLog, LoggedXid, parse_xid
from exporter.log_lines import FileLines, JournalLines, KmsgLines, open_lines
from tests.exporter.conftest import SHARED, Clock, MakeBackend, MakeSampler

CARD = "GPU-6b4e0000-0000-0000-0000-000000000001"
GONE = "GPU-6b4e0000-0000-0000-0000-00000000000f"
IDENTITIES = Identities([Device(CARD, 0, 0, "00000000:9B:00.0", "H100")])


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("NVRM: Xid (PCI:0000:9b:00): 119, pid=1, name=python", LoggedXid("0000:9b:00.0", 119)),
        ("kernel: [12.5] NVRM: Xid (PCI:0000:9b:00): 79, GPU has fallen off the bus.", LoggedXid("0000:9b:00.0", 79)),
        ("NVRM: Xid (0000:03:00): 13, Graphics Exception", LoggedXid("0000:03:00.0", 13)),
        ("NVRM: Xid (PCI:0000:9B:00 GPU-I:05): 43, pid=2", LoggedXid("0000:9b:00.0", 43, "5")),
        ("NVRM: Xid (PCI:0000:9b:00 GPU-I:13 GPU-CI:00): 31, pid=3", LoggedXid("0000:9b:00.0", 31, "13")),
        ("6,3973,227996636,-;NVRM: Xid (PCI:0009:01:00): 149, NETIR", LoggedXid("0009:01:00.0", 149)),
        ("nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 12028, Non-fatal", None),
        ("NVRM: GPU at PCI:0000:9b:00: " + CARD, None),
        ("NVRM: Xid (PCI:0000:9b:00): unknown", None),
        ("NVRM: Xid (PCI:0000:9b:00): 7", None),  # cut within 79
        ("NVRM: Xid (PCI:0000:9b:00): 79NVRM: Xid (PCI:0000:9b:00): 79,", LoggedXid("0000:9b:00.0", 79)),
        ("NVRM: Xid (PCI:0000:9b:00): 4294967295, pid=1", None),
        ("NVRM: Xid (PCI:0000:9b:00): 1000, pid=1", None),
        ("NVRM: Xid (PCI:0000:9b:00): 0, pid=1", None),
        ("NVRM: Xid (PCI:::..): 79, pid=1", None),
        ("NVRM: Xid (PCI:0000:9b:0): 79, pid=1", None),
        ("", None),
    ],
)
def test_a_line_tells_an_xid_or_nothing(line: str, expected: LoggedXid | None) -> None:
    assert parse_xid(line) == expected


class Written:
    """Lines that a test writes."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def read(self) -> Iterable[str]:
        lines, self.lines = self.lines, []
        return lines

    def close(self) -> None:
        pass


def xid(address: str, code: int) -> str:
    return f"NVRM: Xid (PCI:{address}): {code}, pid=1"


def test_cards_are_found_by_address_by_the_logs_own_names_or_stay_addresses(clock: Clock) -> None:
    written = Written()
    log = KernelLog(written, bound=lambda: ["0000:C0:00.0", "0000:d0:00.0"], clock=clock)
    written.lines = [
        f"NVRM: GPU at PCI:0000:c0:00: {GONE.upper().replace('GPU-', 'GPU-')}", xid("0000:9b:00", 31),
        xid("0000:c0:00", 79), xid("0000:d0:00", 79), xid("0000:d1:00", 79),
        xid("0000:9b:00", 79)[:-8], xid("0000:9b:00", 99999),
        f"NVRM: GPU at PCI:0000:e0:00: {GONE}", xid("0000:e0:00", 79),
    ]  # fmt: skip
    assert list(log.read(IDENTITIES, [])) == [
        XidEvent(CARD, 31), XidEvent(GONE, 79), XidEvent("pci:0000:d0:00.0", 79),
    ]  # fmt: skip
    assert list(log.read(IDENTITIES, [])) == []
    assert log.rejected() == {"unknown_card": 2, "damaged_line": 2}


def test_what_arrives_as_an_event_is_not_counted_again(clock: Clock) -> None:
    written = Written()
    log = KernelLog(written, clock=clock)
    written.lines = [xid("0000:9b:00", 79)]
    assert list(log.read(IDENTITIES, [CARD])) == []
    clock.now += 15  # the card is lost meanwhile: its event was told, and its line may come late
    written.lines = [xid("0000:9b:00", 79)]
    assert list(log.read(IDENTITIES, [])) == []
    clock.now += 300
    written.lines = [xid("0000:9b:00", 154)]
    assert [event.code for event in log.read(IDENTITIES, [])] == [154]


def test_xids_of_the_log_are_exposed_beside_those_of_events(
    fleet_backend: MakeBackend, make_sampler: MakeSampler, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard = {"model": "Tesla T4", "faults": [{"kind": "xid", "code": 31}]}
    backend, driver = fleet_backend(heard, {"model": "Tesla T4"})
    deaf = driver.fleet.cards[1]
    monkeypatch.setattr(
        driver, "nvmlDeviceGetSupportedEventTypes", lambda card: 0 if card is deaf else 8, raising=False
    )
    written = Written()
    written.lines = [
        xid("0000:10:00", 31), xid("0000:11:00", 48), xid("0000:11:00", 48), xid("0000:7f:00", 79),
        xid("0000:8f:00", 79), "NVRM: Xid (PCI:0000:1",
    ]  # fmt: skip
    log = KernelLog(written, bound=lambda: ["0000:7f:00.0"], clock=clock)
    snapshot = make_sampler(backend, kernel_log=log).run_pass()
    assert snapshot.kernel_log_up is True
    assert {(uuid, code): tally.count for (uuid, _, code), tally in snapshot.xids.items()} == {
        (driver.fleet.cards[0].uuid, 31): 1, (deaf.uuid, 48): 2, ("pci:0000:7f:00.0", 79): 1,
    }  # fmt: skip
    (family,) = [f for f in FamilyBuilder().build(snapshot) if f.name == "gpuledger_xid_errors_total"]
    assert '{node="node1",pci_bus_id="0000:7f:00.0",xid="79",class="restart_node"}' in [w for w, _ in family.samples]
    assert snapshot.rejected == {("xid_errors_total", "unknown_card"): 1, ("xid_errors_total", "damaged_line"): 1}


def test_a_log_that_cant_be_read_is_said(fleet_backend: MakeBackend, make_sampler: MakeSampler, tmp_path: Path) -> None:
    lines = open_lines(str(tmp_path / "kern.log"))
    sampler = make_sampler(
        fleet_backend({"model": "Tesla T4"})[0], kernel_log=KernelLog(lines, bound=lambda: {"0000:7f:00.0"})
    )
    snapshot = sampler.run_pass()
    assert (snapshot.kernel_log_up, snapshot.good) == (False, True)
    (tmp_path / "kern.log").write_text(xid("0000:7f:00", 79) + "\n")
    snapshot = sampler.run_pass()
    assert snapshot.kernel_log_up is True
    assert len(snapshot.xids) == 1


def test_a_file_is_followed_from_its_end_through_rotation(tmp_path: Path) -> None:
    path = tmp_path / "kern.log"
    path.write_text("old\n")
    lines = FileLines(path)
    assert list(lines.read()) == []
    with path.open("a") as file:
        file.write("one\ntw")
    assert list(lines.read()) == ["one"]
    with path.open("a") as file:
        file.write("o\n")
    path.rename(tmp_path / "kern.log.1")
    assert list(lines.read()) == ["two"]
    path.write_text("three\n")
    assert list(lines.read()) == ["three"]
    path.write_text("4\n")  # cut short in place
    assert list(lines.read()) == ["4"]
    with path.open("a") as daemon:
        path.rename(tmp_path / "kern.log.1")
        path.write_text("six\n")
        assert list(lines.read()) == ["six"]
        daemon.write("five\n")  # not yet told of the new file
    assert list(lines.read()) == ["five"]
    lines.close()


def test_a_deleted_file_is_missed_and_its_successor_read(tmp_path: Path) -> None:
    path = tmp_path / "kern.log"
    path.touch()
    lines = FileLines(path)
    path.unlink()
    assert list(lines.read()) == []  # may be the moment between two files
    for _ in range(2):
        with pytest.raises(SourceError, match=r"kern\.log: is gone"):
            list(lines.read())
    path.write_text("new\n")
    assert list(lines.read()) == ["new"]
    assert list(lines.read()) == []
    path.unlink()
    path.mkdir()
    with pytest.raises(SourceError, match="can't be read"):
        list(lines.read())
    lines.close()


def test_what_is_no_log_is_refused_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="a file, /dev/kmsg or journal was expected"):
        open_lines(str(tmp_path))


def test_records_of_the_kernels_buffer_come_one_by_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The device itself needs privileges: its answers are those that the kernel documents."""
    answers: list[bytes | OSError] = [b"6,1,1,-;one", BrokenPipeError(), b"6,3,1,-;three\n DEVICE=x", BlockingIOError()]

    def read(descriptor: int, size: int) -> bytes:
        del descriptor, size
        answer = answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return answer

    (tmp_path / "kmsg").touch()
    lines = KmsgLines(tmp_path / "kmsg")
    monkeypatch.setattr(os, "read", read)
    assert list(lines.read()) == ["6,1,1,-;one", "6,3,1,-;three\n DEVICE=x"]
    lines.close()


def read_all(lines: JournalLines, count: int) -> list[str]:
    """So many lines, or all until the program ends."""
    found = list(lines.read())
    while len(found) < count:
        assert lines._process is not None
        select.select([lines._process.stdout], [], [], 5)
        found += lines.read()
    return found


def test_the_journal_is_followed_by_its_own_program() -> None:
    text = "import sys, time; print('one'); print('two', flush=True); time.sleep(60)"
    lines = JournalLines((sys.executable, "-c", text))
    assert read_all(lines, 2) == ["one", "two"]
    assert list(lines.read()) == []
    lines.close()
    with pytest.raises(SourceError, match="status 3"):
        read_all(JournalLines((sys.executable, "-c", "raise SystemExit(3)")), 1)
    with pytest.raises(SourceError, match="install systemd"):
        list(JournalLines(("/nowhere/journalctl",)).read())


@pytest.mark.skipif(not SHARED.is_dir(), reason="needs the public captures in ../shared/data")
def test_recorded_logs_are_read_to_their_end(clock: Clock) -> None:
    found: Counter[tuple[str, int]] = Counter()
    for path in sorted((SHARED / "xid").iterdir()):
        written = Written()
        written.lines = path.read_text(errors="replace").splitlines()
        log = KernelLog(written, bound=lambda: ["0000:9b:00.0"], clock=clock)
        for event in log.read(Identities([]), []):
            found[event.uuid, event.code] += 1
        assert not log.rejected()
    assert found == {("GPU-509665ad-b600-ac93-3616-d754b23d636d", 119): 5}
