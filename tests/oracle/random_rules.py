"""Random tenants, prices, reservations and policies for a scene, as the text of `gpuledger.yaml`."""

from __future__ import annotations

from datetime import UTC, datetime

from tests.oracle.random_fleet import MODELS, Scene

FAMILIES = {"NVIDIA H100 80GB HBM3": "*H100*", "NVIDIA A100-SXM4-80GB": "*a100*", "NVIDIA L40S": "*L40S*"}


def settings_text(scene: Scene, sources: list[str]) -> str:
    """The whole configuration; each part is left out where its feature is off."""
    rng = scene.rng
    lines = [f"currency: {rng.choice(('USD', 'JPY', 'KWD')) if scene.on('currency') else 'USD'}"]
    lines.append(f"timezone: {scene.zone}")
    merged_by_guess = scene.merges and (scene.on("crowded_slots") or scene.on("midnight"))
    if scene.on("interval") or (merged_by_guess and not scene.on("inferred_merge")):
        lines.append(f"scrape_interval: {scene.step // 1000}s")
    lines += ["sources:", *sources, *_tenants(scene), *_rates(scene)]
    if scene.on("reservations"):
        lines += _reservations(scene)
    if scene.on("spot"):
        lines += ["spot:", "  - {namespace: 'spot-*'}", "  - {slurm_qos: 'scav*'}"]
    policy = rng.choice(("platform", "proportional", "even", "owner")) if scene.on("idle") else "platform"
    lines.append(f"idle: {{policy: {policy}}}")
    lines.append(f"mig: {{weight: {rng.choice(('max', 'compute', 'memory'))}}}")
    if scene.on("attribution"):
        lines.append(f"attribution: {{bridge: {rng.choice(('5m', '10m'))}, flicker: {rng.choice(('1m', '2m', '3m'))}}}")
    if scene.on("charged_energy"):
        charge = rng.choice(("true", "false"))
        lines.append(f'energy: {{price_per_kwh: "0.12", pue: "1.3", carbon_g_per_kwh: "380", charge: {charge}}}')
    if scene.on("overheads"):
        lines.append("overheads:")
        for number in range(rng.randint(1, 2)):
            split = rng.choice(("even", "proportional"))
            lines.append(f'  - {{name: o{number}, monthly: "{rng.choice((12000, 777.77, 5000))}", split: {split}}}')
    if scene.on("down"):
        lines.append(f"sla: {{credit_downtime: {rng.choice(('true', 'false'))}}}")
    if scene.on("window"):
        minutes = (scene.end - scene.start) // 60_000
        begin = scene.start // 60_000 * 60_000 + rng.randint(-10, minutes // 3) * 60_000
        end = scene.end // 60_000 * 60_000 - rng.randint(-10, minutes // 3) * 60_000
        lines.append(f"window: {{from: '{_utc(begin)}', to: '{_utc(end)}'}}")
    return "\n".join(lines) + "\n"


def _tenants(scene: Scene) -> list[str]:
    rng = scene.rng
    selectors = {
        "vision": ["{namespace: 'vision*'}", "{slurm_account: vision}"],
        "nlp": ["{namespace: nlp}", "{slurm_account: nlp, slurm_partition: 'gpu*'}"],
        "hpc": ["{slurm_account: '*'}", "{namespace: 'spot-*'}"],
    }
    if scene.on("dated"):
        moved = _utc(rng.randint(scene.start // 60_000, scene.end // 60_000) * 60_000)
        selectors["vision"] = [f"{{namespace: 'vision*', to: '{moved}'}}", "{slurm_account: vision}"]
        selectors["nlp"].append(f"{{namespace: 'vision*', from: '{moved}'}}")
    lines = ["tenants:"]
    for name, match in selectors.items():
        lines.append(f"  - id: {name}")
        lines.append(f"    match: [{', '.join(match)}]")
        if scene.on("quota") and rng.random() < 0.7:
            lines.append(f"    quota: {{gpus: {rng.randint(0, 3)}}}")
        if scene.on("budget") and name == "hpc":
            lines.append('    budget: {monthly: "1000.00"}')
    return lines


def _rates(scene: Scene) -> list[str]:
    rng = scene.rng
    patterns = [FAMILIES[model] for model in MODELS]
    patterns += [] if scene.on("unpriced") else ["*"]
    lines = ["rates:"]
    for pattern in patterns:
        if pattern != "*" and rng.random() < 0.3 and not scene.on("unpriced"):
            continue
        edge = _utc(rng.randint(scene.start // 1000, scene.end // 1000) * 1000) if scene.on("rates") else None
        for span in (f"to: '{edge}'", f"from: '{edge}'") if edge else ("",):
            prices = [f'on_demand: "{_price(scene)}"']
            if scene.on("rates") or scene.on("reservations") or scene.on("spot"):
                others = ("reserved", "overflow", "spot")
                prices += [f'{name}: "{_price(scene)}"' for name in others if rng.random() < 0.7]
            lines.append(f"  - {{model: '{pattern}', {', '.join(filter(None, (span, *prices)))}}}")
    return lines


def _price(scene: Scene) -> str:
    return scene.rng.choice(("2.50", "3.20", "1.337", "0.123456", "2.005", "4.20", "100.0000000001"))


def _reservations(scene: Scene) -> list[str]:
    """Each takes one family of models, so that whose idle its unused part pays for is no question."""
    rng = scene.rng
    families = [FAMILIES[m] for m in sorted({g.model for g in scene.gpus} & set(FAMILIES))]
    globs = ["*"] if scene.on("netting") else families
    if not globs:
        return []
    lines = ["reservations:"]
    for number in range(rng.randint(1, 3)):
        points = sorted(rng.sample(range(-600, (scene.end - scene.start) // 1000 + 600), 2))
        begin, end = (_utc((scene.start // 1000 + point) * 1000) for point in points)
        own = f', rate: "{_price(scene)}"' if rng.random() < 0.5 or scene.on("unpriced") else ""
        tenant = rng.choice(("vision", "nlp", "hpc"))
        fields = (
            f"tenant: {tenant}, model: '{rng.choice(globs)}', gpus: {rng.randint(1, 3)}, from: '{begin}', to: '{end}'"
        )
        lines.append(f"  - {{id: r{number}, {fields}{own}}}")
    return lines


def _utc(at: int) -> str:
    return datetime.fromtimestamp(at // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
