"""The table of the catalogue.

Sources: NVIDIA's dcgm_fields.h (field ids, names before and after DCGM 4.6), nvml.h, and the output of
nvidia_gpu_exporter 1.5+. Units are what the sources return, which is not always what they document:

- DCGM's ``*_UTIL_RATIO`` names of 4.6 still return 0–100 for the device fields; the profiling fields return 0–1.
- Violation times are documented in µs in dcgm_fields.h, but come in ns (and dcgm-exporter says ns).
- ``NVLINK_BANDWIDTH_TOTAL`` is a rate in MB/s although its type and name are those of a counter.
- ``PCIE_TX/RX_THROUGHPUT`` (200, 201) are byte counters since DCGM reads them from NVML's field values.
- DCGM's Python bindings and its header give field 1421 two names.
- NVML gives power in mW and energy in mJ; DCGM gives power in W and energy in mJ.
"""

from __future__ import annotations

from exporter.metric import DcgmName, ForeignName, Kind, Metric, Scope

MIB = 1048576.0
KIB = 1024.0
PERCENT = 0.01

# Nothing that a board of 2026 does comes near these; a reading beyond them is garbage.
MAX_CELSIUS = 200.0
MAX_WATTS = 3000.0
MAX_HERTZ = 4e10  # GDDR6X is reported at 11.5 GHz, GDDR7 at 15
MAX_BYTES = float(1 << 44)
MAX_BYTES_PER_SECOND = 1e13
# DCGM's averaged ratios overshoot 1 by rounding; more than this is no ratio.
MAX_RATIO = 1.02
# DCGM's blank values of 64-bit integers start here.
MAX_COUNT = 9.2e18

_Names = tuple[str, ...] | str


def _each(names: _Names) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else names


def _dcgm(field_id: int, names: _Names, scale: float = 1.0) -> tuple[DcgmName, ...]:
    return tuple(DcgmName(f"DCGM_FI_{name}", field_id, scale) for name in _each(names))


def _smi(names: _Names, scale: float = 1.0) -> tuple[ForeignName, ...]:
    return tuple(ForeignName(f"nvidia_smi_{name}", scale) for name in _each(names))


def _metric(
    key: str,
    kind: Kind,
    unit: str,
    text: str,
    bounds: tuple[float, float],
    *,
    nvml: str = "",
    nvml_scale: float = 1.0,
    dcgm: tuple[DcgmName, ...] = (),
    smi: tuple[ForeignName, ...] = (),
    scope: Scope = "board",
    instead: tuple[int, float] | None = None,
) -> Metric:
    return Metric(key, kind, unit, text, *bounds, scope, dcgm, smi, nvml, nvml_scale, instead)


def _active(key: str, text: str, gpm: int | None, field_id: int, names: _Names) -> Metric:
    """A profiling ratio: 0–1 from DCGM, percent from GPM."""
    source = "" if gpm is None else f"GPM {gpm}"
    return _metric(
        key,
        "gauge",
        "ratio",
        text,
        (0, MAX_RATIO),
        nvml=source,
        nvml_scale=PERCENT,
        dcgm=_dcgm(field_id, names),
        scope="instance",
    )


def _percent(key: str, text: str, nvml: str, dcgm: tuple[int, _Names] | None, smi: _Names = ()) -> Metric:
    fields = _dcgm(dcgm[0], dcgm[1], PERCENT) if dcgm else ()
    return _metric(key, "gauge", "ratio", text, (0, 1), nvml=nvml, nvml_scale=PERCENT, dcgm=fields, smi=_smi(smi))


def _watts(key: str, text: str, nvml: str, dcgm: tuple[int, _Names] | None, smi: _Names) -> Metric:
    fields = _dcgm(*dcgm) if dcgm else ()
    return _metric(key, "gauge", "watts", text, (0, MAX_WATTS), nvml=nvml, nvml_scale=0.001, dcgm=fields, smi=_smi(smi))


def _celsius(
    key: str, text: str, nvml: str, dcgm: tuple[int, _Names] | None, smi: _Names = (), *, low: float = 0
) -> Metric:
    fields = _dcgm(*dcgm) if dcgm else ()
    return _metric(key, "gauge", "celsius", text, (low, MAX_CELSIUS), nvml=nvml, dcgm=fields, smi=_smi(smi))


def _hertz(key: str, text: str, nvml: str, dcgm: tuple[int, _Names] | None, smi: _Names) -> Metric:
    fields = _dcgm(dcgm[0], dcgm[1], 1e6) if dcgm else ()
    return _metric(key, "gauge", "hertz", text, (0, MAX_HERTZ), nvml=nvml, nvml_scale=1e6, dcgm=fields, smi=_smi(smi))


def _memory(key: str, text: str, field_id: int, name: str, smi: _Names) -> Metric:
    return _metric(
        key, "gauge", "bytes", text, (0, MAX_BYTES), nvml="nvmlDeviceGetMemoryInfo_v2",
        dcgm=_dcgm(field_id, name, MIB), smi=_smi(smi), scope="instance",
    )  # fmt: skip


def _count(key: str, text: str, nvml: str, dcgm: tuple[int, _Names] | None = None, smi: _Names = ()) -> Metric:
    fields = _dcgm(*dcgm) if dcgm else ()
    return _metric(key, "counter", "", text, (0, MAX_COUNT), nvml=nvml, dcgm=fields, smi=_smi(smi))


def _state(
    key: str, text: str, high: float, nvml: str, dcgm: tuple[int, _Names] | None = None, *, smi: _Names = ()
) -> Metric:
    fields = _dcgm(*dcgm) if dcgm else ()
    return _metric(key, "gauge", "", text, (0, high), nvml=nvml, dcgm=fields, smi=_smi(smi))


def _throttled(
    key: str, text: str, nvml: str, dcgm: tuple[int, str], smi: _Names = (), *, also: tuple[int, _Names] | None = None
) -> Metric:
    """Time spent throttled: ns from NVML and DCGM, seconds from nvidia_gpu_exporter."""
    fields = _dcgm(*dcgm, 1e-9) + (_dcgm(*also, 1e-9) if also else ())
    return _metric(key, "counter", "seconds", text, (0, 9.2e9), nvml=nvml, nvml_scale=1e-9, dcgm=fields, smi=_smi(smi))


def _rate(key: str, text: str, gpm: int | None, dcgm: tuple[DcgmName, ...], smi: _Names = ()) -> Metric:
    source = "" if gpm is None else f"GPM {gpm}"
    return _metric(
        key,
        "gauge",
        "bytes_per_second",
        text,
        (0, MAX_BYTES_PER_SECOND),
        nvml=source,
        nvml_scale=MIB,
        dcgm=dcgm,
        smi=_smi(smi),
    )


def _bytes_counter(
    key: str,
    text: str,
    nvml: str,
    scale: float,
    dcgm: tuple[DcgmName, ...],
    *,
    instead: tuple[int, float] | None = None,
) -> Metric:
    return _metric(
        key, "counter", "bytes", text, (0, MAX_COUNT), nvml=nvml, nvml_scale=scale, dcgm=dcgm, instead=instead
    )


_ACTIVITY = (
    _active("engine_active_ratio", "Share of time in which the graphics or compute engine was busy.",
            1, 1001, ("PROF_GR_ENGINE_ACTIVE", "PROF_GR_ENGINE_UTIL_RATIO")),
    _active("sm_active_ratio", "Share of cycles in which an SM had a warp assigned, mean over all SMs.",
            2, 1002, ("PROF_SM_ACTIVE", "PROF_SM_UTIL_RATIO")),
    _active("sm_occupancy_ratio", "Warps resident on the SMs, of the most they can hold.",
            3, 1003, ("PROF_SM_OCCUPANCY", "PROF_SM_OCCUPANCY_RATIO")),
    _active("tensor_active_ratio", "Share of cycles in which any tensor pipe was active.",
            5, 1004, ("PROF_PIPE_TENSOR_ACTIVE", "PROF_TENSOR_UTIL_RATIO")),
    _active("dram_active_ratio", "Share of cycles in which device memory was sending or receiving.",
            10, 1005, ("PROF_DRAM_ACTIVE", "PROF_DRAM_UTIL_RATIO")),
    _active("fp64_active_ratio", "Share of cycles in which the FP64 pipe was active.",
            11, 1006, ("PROF_PIPE_FP64_ACTIVE", "PROF_FP64_UTIL_RATIO")),
    _active("fp32_active_ratio", "Share of cycles in which the FP32 pipe was active.",
            12, 1007, ("PROF_PIPE_FP32_ACTIVE", "PROF_FP32_UTIL_RATIO")),
    _active("fp16_active_ratio", "Share of cycles in which the FP16 pipe was active, tensor work excluded.",
            13, 1008, ("PROF_PIPE_FP16_ACTIVE", "PROF_FP16_UTIL_RATIO")),
    _active("integer_active_ratio", "Share of cycles in which the integer pipe was active.",
            4, 1016, ("PROF_PIPE_INT_ACTIVE", "PROF_INT_UTIL_RATIO")),
    _active("tensor_imma_active_ratio", "Share of cycles in which the integer tensor pipe was active.",
            9, 1013, ("PROF_PIPE_TENSOR_IMMA_ACTIVE", "PROF_IMMA_UTIL_RATIO")),
    _active("tensor_hmma_active_ratio", "Share of cycles in which the half-precision tensor pipe was active.",
            7, 1014, ("PROF_PIPE_TENSOR_HMMA_ACTIVE", "PROF_HMMA_UTIL_RATIO")),
    _active("tensor_dfma_active_ratio", "Share of cycles in which the double-precision tensor pipe was active.",
            6, 1015, ("PROF_PIPE_TENSOR_DFMA_ACTIVE", "PROF_DFMA_UTIL_RATIO")),
    _percent("gpu_util_ratio", "Share of time in which at least one kernel ran, however small.",
             "nvmlDeviceGetUtilizationRates", (203, ("DEV_GPU_UTIL", "DEV_GPU_UTIL_RATIO")), "utilization_gpu_ratio"),
    _percent("memory_copy_util_ratio", "Share of time in which device memory was read or written.",
             "nvmlDeviceGetUtilizationRates", (204, "DEV_MEM_COPY_UTIL"), "utilization_memory_ratio"),
    _percent("encoder_util_ratio", "Share of time in which the video encoder was busy.",
             "nvmlDeviceGetEncoderUtilization", (206, "DEV_ENC_UTIL"), "utilization_encoder_ratio"),
    _percent("decoder_util_ratio", "Share of time in which the video decoder was busy.",
             "nvmlDeviceGetDecoderUtilization", (207, "DEV_DEC_UTIL"), "utilization_decoder_ratio"),
    _percent("jpeg_util_ratio", "Share of time in which the JPEG engine was busy.",
             "nvmlDeviceGetJpgUtilization", None, "utilization_jpeg_ratio"),
    _percent("optical_flow_util_ratio", "Share of time in which the optical flow engine was busy.",
             "nvmlDeviceGetOfaUtilization", None, "utilization_ofa_ratio"),
)  # fmt: skip

_MEMORY = (
    _memory("memory_total_bytes", "Device memory, reserved memory included.", 250, "DEV_FB_TOTAL",
            ("memory_total_bytes", "mig_memory_total_bytes")),
    _memory("memory_free_bytes", "Device memory that is free.", 251, "DEV_FB_FREE",
            ("memory_free_bytes", "mig_memory_free_bytes")),
    _memory("memory_used_bytes", "Device memory that processes hold.", 252, "DEV_FB_USED",
            ("memory_used_bytes", "mig_memory_used_bytes")),
    _memory("memory_reserved_bytes", "Device memory that driver and firmware hold; total = used + free + reserved.",
            253, "DEV_FB_RESERVED", ("memory_reserved_bytes", "mig_memory_reserved_bytes")),
    _metric("memory_used_ratio", "gauge", "ratio", "Device memory used, of used and free.", (0, MAX_RATIO),
            dcgm=_dcgm(254, ("DEV_FB_USED_PERCENT", "DEV_FB_USED_RATIO"))),
    _metric("bar1_total_bytes", "gauge", "bytes", "BAR1 address space.", (0, MAX_BYTES),
            nvml="nvmlDeviceGetBAR1MemoryInfo", dcgm=_dcgm(90, "DEV_BAR1_TOTAL", MIB), scope="instance"),
    _metric("bar1_used_bytes", "gauge", "bytes", "BAR1 address space in use.", (0, MAX_BYTES),
            nvml="nvmlDeviceGetBAR1MemoryInfo", dcgm=_dcgm(92, "DEV_BAR1_USED", MIB), scope="instance"),
    _metric("bar1_free_bytes", "gauge", "bytes", "BAR1 address space free.", (0, MAX_BYTES),
            nvml="nvmlDeviceGetBAR1MemoryInfo", dcgm=_dcgm(93, "DEV_BAR1_FREE", MIB), scope="instance"),
)  # fmt: skip

_POWER = (
    _watts("power_watts", "Power draw of the board, as the driver averages it.", "nvmlDeviceGetPowerUsage",
           (155, ("DEV_POWER_USAGE", "DEV_BOARD_POWER_WATTS")), ("power_draw_watts", "power_draw_average_watts")),
    _watts("power_instant_watts", "Power draw of the board at this instant.", "field 186",
           (157, ("DEV_POWER_USAGE_INSTANT", "DEV_BOARD_POWER_RAW_WATTS")), "power_draw_instant_watts"),
    _metric("energy_joules_total", "counter", "joules", "Energy drawn by the board since the driver was loaded.",
            (0, MAX_COUNT * 0.001), nvml="field 83", nvml_scale=0.001,
            dcgm=_dcgm(156, "DEV_TOTAL_ENERGY_CONSUMPTION", 0.001), smi=_smi("energy_joules_total")),
    _watts("power_limit_watts", "Power limit that was asked for.", "nvmlDeviceGetPowerManagementLimit",
           (160, ("DEV_POWER_MGMT_LIMIT", "DEV_BOARD_POWER_LIMIT_REQUESTED_WATTS")), "power_limit_watts"),
    _watts("power_limit_minimum_watts", "Lowest power limit that the board accepts.", "field 187",
           (161, ("DEV_POWER_MGMT_LIMIT_MIN", "DEV_BOARD_POWER_LIMIT_MIN_WATTS")), "power_min_limit_watts"),
    _watts("power_limit_maximum_watts", "Highest power limit that the board accepts.", "field 188",
           (162, ("DEV_POWER_MGMT_LIMIT_MAX", "DEV_BOARD_POWER_LIMIT_MAX_WATTS")), "power_max_limit_watts"),
    _watts("power_limit_default_watts", "Power limit after a driver load.", "field 189",
           (163, ("DEV_POWER_MGMT_LIMIT_DEF", "DEV_BOARD_POWER_LIMIT_DEFAULT_WATTS")), "power_default_limit_watts"),
    _watts("power_limit_enforced_watts", "Power limit in force after all limiters.",
           "nvmlDeviceGetEnforcedPowerLimit",
           (164, ("DEV_ENFORCED_POWER_LIMIT", "DEV_BOARD_POWER_LIMIT_ENFORCED_WATTS")), "enforced_power_limit_watts"),
)  # fmt: skip

_TEMPERATURE = (
    _celsius("temperature_celsius", "Temperature of the GPU core.", "nvmlDeviceGetTemperature",
             (150, ("DEV_GPU_TEMP", "DEV_GPU_TEMP_CELSIUS")), "temperature_gpu"),
    _celsius("memory_temperature_celsius", "Temperature of the device memory.", "field 82",
             (140, ("DEV_MEMORY_TEMP", "DEV_MEMORY_TEMP_CELSIUS")), "temperature_memory"),
    _celsius("temperature_margin_celsius", "Distance to the nearest slowdown threshold.",
             "nvmlDeviceGetMarginTemperature", (153, ("DEV_GPU_TEMP_LIMIT", "DEV_GPU_TEMP_MARGIN_CELSIUS")),
             "temperature_gpu_tlimit", low=-MAX_CELSIUS),
    _celsius("temperature_slowdown_celsius", "Core temperature at which clocks are cut.",
             "nvmlDeviceGetTemperatureThreshold", (158, ("DEV_SLOWDOWN_TEMP", "DEV_GPU_TEMP_SLOWDOWN_CELSIUS"))),
    _celsius("temperature_shutdown_celsius", "Core temperature at which the board shuts down.",
             "nvmlDeviceGetTemperatureThreshold", (159, ("DEV_SHUTDOWN_TEMP", "DEV_GPU_TEMP_SHUTDOWN_CELSIUS"))),
    _celsius("temperature_maximum_celsius", "Highest core temperature of normal operation.",
             "nvmlDeviceGetTemperatureThreshold", (152, ("DEV_GPU_MAX_OP_TEMP", "DEV_GPU_MAX_OP_TEMP_CELSIUS"))),
    _celsius("memory_temperature_maximum_celsius", "Highest memory temperature of normal operation.",
             "nvmlDeviceGetTemperatureThreshold", (151, ("DEV_MEM_MAX_OP_TEMP", "DEV_MEMORY_MAX_OP_TEMP_CELSIUS"))),
    _percent("fan_speed_ratio", "Fan speed, of the fastest.", "nvmlDeviceGetFanSpeed", (191, "DEV_FAN_SPEED"),
             "fan_speed_ratio"),
)  # fmt: skip

_CLOCKS = (
    _hertz("sm_clock_hertz", "Clock of the SMs.", "nvmlDeviceGetClockInfo", (100, "DEV_SM_CLOCK"),
           "clocks_current_sm_clock_hz"),
    _hertz("memory_clock_hertz", "Clock of the device memory.", "nvmlDeviceGetClockInfo", (101, "DEV_MEM_CLOCK"),
           "clocks_current_memory_clock_hz"),
    _hertz("video_clock_hertz", "Clock of the video engines.", "nvmlDeviceGetClockInfo", (102, "DEV_VIDEO_CLOCK"),
           "clocks_current_video_clock_hz"),
    _hertz("graphics_clock_hertz", "Clock of the graphics engine.", "nvmlDeviceGetClockInfo", None,
           "clocks_current_graphics_clock_hz"),
    _hertz("sm_clock_maximum_hertz", "Highest clock of the SMs.", "nvmlDeviceGetMaxClockInfo",
           (113, "DEV_MAX_SM_CLOCK"), "clocks_max_sm_clock_hz"),
    _hertz("memory_clock_maximum_hertz", "Highest clock of the device memory.", "nvmlDeviceGetMaxClockInfo",
           (114, "DEV_MAX_MEM_CLOCK"), "clocks_max_memory_clock_hz"),
    _state("performance_state", "Performance state: 0 is the fastest, 15 the slowest.", 15,
           "nvmlDeviceGetPerformanceState", (190, ("DEV_PSTATE", "DEV_GPU_PSTATE")), smi="pstate"),
)  # fmt: skip

_THROTTLE = (
    _state("throttle_reasons_bitmask",
           "Why clocks are below what was asked for: 1 idle, 2 application clocks, 4 software power cap, 8 hardware "
           "slowdown, 16 sync boost, 32 software thermal, 64 hardware thermal, 128 power brake, 256 display clocks.",
           float(1 << 32), "nvmlDeviceGetCurrentClocksEventReasons",
           (112, ("DEV_CLOCKS_EVENT_REASONS", "DEV_CLOCK_THROTTLE_REASONS")),
           smi=("clocks_event_reasons_active", "clocks_throttle_reasons_active")),
    _throttled("throttle_power_seconds_total", "Time throttled by the power limit.", "field 74",
               (240, "DEV_POWER_VIOLATION"), "clocks_event_reasons_counters_sw_power_cap_seconds",
               also=(1420, "DEV_CLOCKS_EVENT_REASON_SW_POWER_CAP_NS")),
    _throttled("throttle_thermal_seconds_total", "Time throttled by temperature.", "field 75",
               (241, "DEV_THERMAL_VIOLATION")),
    _throttled("throttle_sync_boost_seconds_total", "Time throttled by sync boost.", "field 76",
               (242, "DEV_SYNC_BOOST_VIOLATION"), "clocks_event_reasons_counters_sync_boost_seconds",
               also=(1421, ("DEV_CLOCKS_EVENT_REASON_SYNC_BOOST_NS", "DEV_CLOCKS_EVENT_REASON_SYNC_BOOST_COUNT_NS"))),
    _throttled("throttle_board_limit_seconds_total", "Time throttled by the board's own limit.", "field 77",
               (243, "DEV_BOARD_LIMIT_VIOLATION")),
    _throttled("throttle_low_utilization_seconds_total", "Time at low clocks for want of work.", "field 78",
               (244, "DEV_LOW_UTIL_VIOLATION")),
    _throttled("throttle_reliability_seconds_total", "Time throttled by the reliability voltage limit.", "field 79",
               (245, "DEV_RELIABILITY_VIOLATION")),
    _throttled("throttle_software_thermal_seconds_total", "Time throttled by the driver for temperature.",
               "field 269", (1422, "DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN_NS"),
               "clocks_event_reasons_counters_sw_thermal_slowdown_seconds"),
    _throttled("throttle_hardware_thermal_seconds_total", "Time throttled by hardware for temperature.",
               "field 270", (1423, "DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN_NS"),
               "clocks_event_reasons_counters_hw_thermal_slowdown_seconds"),
    _throttled("throttle_power_brake_seconds_total", "Time throttled by the external power brake.",
               "field 271", (1424, "DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN_NS"),
               "clocks_event_reasons_counters_hw_power_brake_slowdown_seconds"),
)  # fmt: skip

_PCIE = (
    _bytes_counter("pcie_transmit_bytes_total", "Bytes that the GPU sent over PCIe.", "field 197", 1,
                   _dcgm(1091, "PROF_PCIE_TX_BYTES_TOTAL") + _dcgm(200, "DEV_PCIE_TX_THROUGHPUT")),
    _bytes_counter("pcie_receive_bytes_total", "Bytes that the GPU received over PCIe.", "field 198", 1,
                   _dcgm(1092, "PROF_PCIE_RX_BYTES_TOTAL") + _dcgm(201, "DEV_PCIE_RX_THROUGHPUT")),
    _rate("pcie_transmit_bytes_per_second", "Rate at which the GPU sent over PCIe.", 20,
          _dcgm(1009, "PROF_PCIE_TX_BYTES"), "pcie_throughput_tx_bytes_per_second"),
    _rate("pcie_receive_bytes_per_second", "Rate at which the GPU received over PCIe.", 21,
          _dcgm(1010, "PROF_PCIE_RX_BYTES"), "pcie_throughput_rx_bytes_per_second"),
    _count("pcie_replays_total", "PCIe packets that had to be sent again.", "field 94",
           (202, ("DEV_PCIE_REPLAY_COUNTER", "DEV_PCIE_REPLAY_TOTAL"))),
    _state("pcie_link_generation", "PCIe generation in use.", 16, "nvmlDeviceGetCurrPcieLinkGeneration",
           (237, "DEV_PCIE_LINK_GEN"), smi=("pcie_link_gen_current", "pcie_link_gen_gpucurrent")),
    _state("pcie_link_generation_maximum", "Highest PCIe generation of card and slot.", 16,
           "nvmlDeviceGetMaxPcieLinkGeneration", (235, "DEV_PCIE_MAX_LINK_GEN"), smi="pcie_link_gen_max"),
    _state("pcie_link_width", "PCIe lanes in use.", 64, "nvmlDeviceGetCurrPcieLinkWidth",
           (238, "DEV_PCIE_LINK_WIDTH"), smi="pcie_link_width_current"),
    _state("pcie_link_width_maximum", "PCIe lanes of card and slot.", 64, "nvmlDeviceGetMaxPcieLinkWidth",
           (236, "DEV_PCIE_MAX_LINK_WIDTH"), smi="pcie_link_width_max"),
)  # fmt: skip

_NVLINK = (
    _bytes_counter("nvlink_transmit_bytes_total",
                   "Bytes that the GPU sent over all NVLinks, before NVLink 5 payload only.",
                   "field 138", KIB, _dcgm(1201, ("DEV_NVLINK_COUNT_TX_BYTES", "DEV_NVLINK_TX_BYTES_TOTAL")),
                   instead=(202, 1)),
    _bytes_counter("nvlink_receive_bytes_total",
                   "Bytes that the GPU received over all NVLinks, before NVLink 5 payload only.",
                   "field 139", KIB, _dcgm(1203, ("DEV_NVLINK_COUNT_RX_BYTES", "DEV_NVLINK_RX_BYTES_TOTAL")),
                   instead=(204, 1)),
    _rate("nvlink_transmit_bytes_per_second", "Rate at which the GPU sent over all NVLinks.", 61,
          _dcgm(1011, "PROF_NVLINK_TX_BYTES")),
    _rate("nvlink_receive_bytes_per_second", "Rate at which the GPU received over all NVLinks.", 60,
          _dcgm(1012, "PROF_NVLINK_RX_BYTES")),
    _rate("nvlink_bytes_per_second", "Rate over all NVLinks, both directions.", None,
          _dcgm(449, ("DEV_NVLINK_BANDWIDTH_TOTAL", "DEV_NVLINK_THROUGHPUT_TOTAL"), 1e6)),
    _count("nvlink_flit_crc_errors_total", "NVLink flow-control CRC errors.", "field 38",
           (409, ("DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL", "DEV_NVLINK_CRC_FLIT_ERROR_TOTAL"))),
    _count("nvlink_data_crc_errors_total", "NVLink data CRC errors.", "field 45",
           (419, ("DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL", "DEV_NVLINK_CRC_DATA_ERROR_TOTAL"))),
    _count("nvlink_replays_total", "NVLink packets that had to be sent again.", "field 52",
           (429, ("DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL", "DEV_NVLINK_REPLAY_ERROR_TOTAL"))),
    _metric("nvlink_recoveries_total", "counter", "", "NVLink link recoveries, successful or not.", (0, MAX_COUNT),
            nvml="field 59", instead=(215, 1),
            dcgm=_dcgm(439, ("DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL", "DEV_NVLINK_RECOVERY_ERROR_TOTAL"))
            + _dcgm(1213, ("DEV_NVLINK_COUNT_LINK_RECOVERY_EVENTS", "DEV_NVLINK_RECOVERY_EVENT_TOTAL"))),
    _state("nvlink_links", "NVLinks of the GPU.", 64, "field 91"),
)  # fmt: skip

# Of Blackwell's NVLink 5 alone, which has none of the CRC and replay counters above.
_NVLINK_5 = (
    _count("nvlink_transmit_packets_total", "NVLink 5 packets sent.", "field 201",
           (1200, ("DEV_NVLINK_COUNT_TX_PACKETS", "DEV_NVLINK_TX_PACKET_TOTAL"))),
    _count("nvlink_receive_packets_total", "NVLink 5 packets received.", "field 203",
           (1202, ("DEV_NVLINK_COUNT_RX_PACKETS", "DEV_NVLINK_RX_PACKET_TOTAL"))),
    _count("nvlink_malformed_packets_total", "NVLink 5 packets received malformed.", "field 206",
           (1204, ("DEV_NVLINK_COUNT_RX_MALFORMED_PACKET_ERRORS", "DEV_NVLINK_RX_PACKET_MALFORMED_TOTAL"))),
    _count("nvlink_buffer_overruns_total", "NVLink 5 packets dropped on arrival for want of buffer.", "field 207",
           (1205, ("DEV_NVLINK_COUNT_RX_BUFFER_OVERRUN_ERRORS", "DEV_NVLINK_RX_PACKET_DROPPED_TOTAL"))),
    _count("nvlink_receive_errors_total", "NVLink 5 packets received with errors.", "field 208",
           (1206, ("DEV_NVLINK_COUNT_RX_ERRORS", "DEV_NVLINK_RX_ERROR_TOTAL"))),
    _count("nvlink_remote_errors_total", "NVLink 5 packets that the far end had marked as bad.", "field 209",
           (1207, ("DEV_NVLINK_COUNT_RX_REMOTE_ERRORS", "DEV_NVLINK_RX_REMOTE_ERROR_TOTAL"))),
    _count("nvlink_header_errors_total", "NVLink 5 packets received with a wrong header.", "field 210",
           (1208, ("DEV_NVLINK_COUNT_RX_GENERAL_ERRORS", "DEV_NVLINK_RX_GENERAL_ERROR_TOTAL"))),
    _count("nvlink_integrity_errors_total", "Times that an NVLink 5 link had too many errors.", "field 211",
           (1209, ("DEV_NVLINK_COUNT_LOCAL_LINK_INTEGRITY_ERRORS", "DEV_NVLINK_INTEGRITY_ERROR_TOTAL"))),
    _count("nvlink_transmit_discards_total", "NVLink 5 packets discarded before they were sent.", "field 212",
           (1210, "DEV_NVLINK_COUNT_TX_DISCARDS")),
    _count("nvlink_recoveries_succeeded_total", "NVLink 5 recoveries after which the link came back.", "field 213",
           (1211, ("DEV_NVLINK_COUNT_LINK_RECOVERY_SUCCESSFUL_EVENTS", "DEV_NVLINK_RECOVERY_SUCCESSFUL_TOTAL"))),
    _count("nvlink_recoveries_failed_total", "NVLink 5 recoveries after which the link was given up.", "field 214",
           (1212, ("DEV_NVLINK_COUNT_LINK_RECOVERY_FAILED_EVENTS", "DEV_NVLINK_RECOVERY_FAILED_TOTAL"))),
    _count("nvlink_effective_errors_total", "NVLink 5 errors that were left after correction.", "field 219",
           (1219, ("DEV_NVLINK_COUNT_EFFECTIVE_ERRORS", "DEV_NVLINK_EFFECTIVE_ERROR_TOTAL"))),
    _count("nvlink_symbol_errors_total", "NVLink 5 errors in received symbols.", "field 221",
           (1214, ("DEV_NVLINK_COUNT_RX_SYMBOL_ERRORS", "DEV_NVLINK_RX_SYMBOL_ERROR_TOTAL"))),
)  # fmt: skip

_ERRORS = (
    _state("xid_last_code", "Code of the last XID error; it sticks, so count events by gpuledger_xid_errors_total.",
           1023, "nvmlEventSetWait_v2", (230, ("DEV_XID_ERRORS", "DEV_XID_ERROR"))),
    _count("ecc_corrected_volatile_total", "Corrected ECC errors since the driver was loaded.", "field 3",
           (310, "DEV_ECC_SBE_VOL_TOTAL"), "ecc_errors_corrected_volatile_total"),
    _count("ecc_uncorrected_volatile_total", "Uncorrected ECC errors since the driver was loaded.", "field 4",
           (311, "DEV_ECC_DBE_VOL_TOTAL"), "ecc_errors_uncorrected_volatile_total"),
    _count("ecc_corrected_lifetime_total", "Corrected ECC errors over the life of the board.", "field 5",
           (312, "DEV_ECC_SBE_AGG_TOTAL"), "ecc_errors_corrected_aggregate_total"),
    _count("ecc_uncorrected_lifetime_total", "Uncorrected ECC errors over the life of the board.", "field 6",
           (313, "DEV_ECC_DBE_AGG_TOTAL"), "ecc_errors_uncorrected_aggregate_total"),
    _state("ecc_mode", "Whether ECC is on.", 1, "field 1", (300, ("DEV_ECC_CURRENT", "DEV_ECC_MODE")),
           smi="ecc_mode_current"),
    _state("sram_threshold_exceeded", "Whether uncorrected SRAM errors passed the threshold for replacing the board.",
           1, "nvmlDeviceGetSramEccErrorStatus", (346, ("DEV_THRESHOLD_SRM", "DEV_SRAM_EXCEEDED")),
           smi="ecc_errors_uncorrected_aggregate_sram_threshold_exceeded"),
    _count("retired_pages_corrected_total", "Pages retired for corrected errors.", "field 29",
           (390, ("DEV_RETIRED_SBE", "DEV_PAGE_RETIRED_SBE_TOTAL")), "retired_pages_single_bit_ecc_count"),
    _count("retired_pages_uncorrected_total", "Pages retired for uncorrected errors.", "field 30",
           (391, ("DEV_RETIRED_DBE", "DEV_PAGE_RETIRED_DBE_TOTAL")), "retired_pages_double_bit_count"),
    _state("retired_pages_pending", "Pages waiting to be retired at the next reset.", MAX_COUNT, "field 31",
           (392, ("DEV_RETIRED_PENDING", "DEV_PAGE_RETIRED_PENDING")), smi="retired_pages_pending"),
    _count("remapped_rows_uncorrected_total", "Memory rows remapped for uncorrected errors.", "field 143",
           (393, ("DEV_UNCORRECTABLE_REMAPPED_ROWS", "DEV_ROW_REMAP_UNCORRECTABLE_TOTAL")),
           "remapped_rows_uncorrectable"),
    _count("remapped_rows_corrected_total", "Memory rows remapped for corrected errors.", "field 142",
           (394, ("DEV_CORRECTABLE_REMAPPED_ROWS", "DEV_ROW_REMAP_CORRECTABLE_TOTAL")), "remapped_rows_correctable"),
    _state("row_remap_failed", "Whether a remap failed: replace the board.", 1, "field 145",
           (395, ("DEV_ROW_REMAP_FAILURE", "DEV_ROW_REMAP_FAILED")), smi="remapped_rows_failure"),
    _state("row_remap_pending", "Whether a remap waits for a reset.", 1, "field 144", (396, "DEV_ROW_REMAP_PENDING"),
           smi="remapped_rows_pending"),
    _state("recovery_action", "What the driver asks for: 0 nothing, 1 reset, 2 reboot, 3 drain P2P, 4 drain and reset.",
           16, "field 230", (1523, "DEV_GPU_RECOVERY_ACTION"), smi="gpu_recovery_action"),
)  # fmt: skip

_MODES = (
    _state("mig_mode", "Whether MIG is on.", 1, "nvmlDeviceGetMigMode", (67, "DEV_MIG_MODE"), smi="mig_mode_current"),
    _state("persistence_mode", "Whether the driver stays loaded without clients.", 1, "nvmlDeviceGetPersistenceMode",
           (66, ("DEV_PERSISTENCE_MODE", "DEV_GPU_PERSISTENCE_MODE")), smi="persistence_mode"),
    _state("compute_mode", "Compute mode: 0 default, 2 prohibited, 3 one process.", 3, "nvmlDeviceGetComputeMode",
           (65, ("DEV_COMPUTE_MODE", "DEV_GPU_COMPUTE_MODE")), smi="compute_mode"),
    _state("vgpu_license_status", "Whether a vGPU license is held.", 16, "nvmlDeviceGetGridLicensableFeatures_v4",
           (526, "DEV_VGPU_LICENSE_STATUS")),
    _state("compute_processes", "Processes with a compute context on the device.", 1e6,
           "nvmlDeviceGetComputeRunningProcesses_v3", smi="compute_apps"),
)  # fmt: skip

_OWNERSHIP = (
    _metric("owner_share_ratio", "gauge", "ratio",
            "Share of a card or MIG instance that the owner in the labels holds; an idle holder counts.", (0, 1),
            scope="instance"),
)  # fmt: skip

ENTRIES = (
    _ACTIVITY
    + _MEMORY
    + _POWER
    + _TEMPERATURE
    + _CLOCKS
    + _THROTTLE
    + _PCIE
    + _NVLINK
    + _NVLINK_5
    + _ERRORS
    + _MODES
    + _OWNERSHIP
)
