-- What a ledger of 1,000 GPUs publishes after a year: 20 tenants, 3,000 leases a day; the tables that the app reads,
-- each in the order of the publisher's, which is by month first.
CREATE TABLE setting AS SELECT 'USD' AS currency, 'UTC' AS timezone, 'bench' AS config_hash;
CREATE TABLE tenant AS SELECT format('team-{:02d}', n) AS id, format('Team {:02d}', n) AS name, NULL::VARCHAR AS parent,
    NULL::VARCHAR AS cost_center, '{}' AS tags, NULL::VARCHAR AS budget_monthly, NULL::VARCHAR AS budget_gpu_hours,
    NULL::BIGINT AS quota_gpus FROM range(20) t(n);
CREATE TABLE period AS SELECT strftime(m, '%Y-%m') AS period, m::TIMESTAMPTZ AS start,
    (m + INTERVAL 1 MONTH)::TIMESTAMPTZ AS "end"
    FROM range(TIMESTAMP '2025-12-01', TIMESTAMP '2026-12-01', INTERVAL 1 MONTH) t(m);
CREATE TABLE metered_from AS SELECT '' AS made_from, now() AS made_at, epoch_ms(min(start)) AS span_start,
    epoch_ms(max("end")) AS span_end FROM period;
CREATE TABLE device_day AS
    SELECT strftime(d, '%Y-%m') AS period, d::DATE AS day, 'c' AS cluster, format('node-{:03d}', g // 8) AS node,
        format('GPU-{:08d}-0000', g) AS device, CASE g % 3 WHEN 0 THEN 'H100' WHEN 1 THEN 'A100' ELSE 'L40S' END AS model,
        s.state, CASE WHEN s.state = 'allocated' THEN format('team-{:02d}', (g + epoch(d)::BIGINT // 86400) % 20)
        END AS tenant, s.h AS gpu_hours, CASE WHEN s.state = 'allocated' THEN s.h * 0.98 ELSE 0 END AS observed_gpu_hours,
        CASE WHEN s.state = 'allocated' THEN s.h * 0.6 ELSE 0 END AS busy_gpu_hours, s.h * 2.5 AS on_demand_weight
    FROM range(TIMESTAMP '2025-12-01', TIMESTAMP '2026-12-01', INTERVAL 1 DAY) t(d), range(1000) u(g),
        (VALUES ('allocated', 15e0), ('idle', 8e0), ('unobserved', 1e0)) s(state, h)
    ORDER BY period, day, cluster, node, device;
CREATE TABLE fleet_period AS SELECT period, sum(gpu_hours) AS capacity_gpu_hours,
    sum(gpu_hours) FILTER (state = 'allocated') AS allocated_gpu_hours, sum(gpu_hours) FILTER (state = 'idle')
    AS idle_gpu_hours, 0.0 AS stranded_gpu_hours, 0.0 AS down_gpu_hours, sum(gpu_hours) FILTER (state = 'unobserved')
    AS unobserved_gpu_hours, 0.0 AS unattributed_gpu_hours, 1000 AS devices, 1.0 AS energy_kwh,
    sum(on_demand_weight)::DECIMAL(38,4) AS cost, sum(on_demand_weight * (state = 'allocated')::INT)::DECIMAL(38,4)
    AS billed, sum(on_demand_weight * (state <> 'allocated')::INT)::DECIMAL(38,4) AS unbilled
    FROM device_day GROUP BY period;
CREATE TABLE lease AS
    SELECT format('{:016x}', n) AS id, 'c' AS cluster, 'pod' AS kind, format('ns/job-{:07d}', n // 2) AS workload,
        format('user-{:03d}', n % 200) AS "user", NULL::VARCHAR AS slurm_user, format('node-{:03d}', n % 125) AS node,
        format('GPU-{:08d}-0000', n % 1000) AS device, NULL::VARCHAR AS instance, 'H100' AS model,
        epoch_ms(TIMESTAMP '2025-12-01') + (n // 3000) * 86400000 + (n % 20) * 3600000 AS start,
        start + 5 * 3600000 AS "end", n % 20 AS t
    FROM range(3000 * 365) x(n);
CREATE TABLE lease_period AS
    SELECT strftime(epoch_ms(start), '%Y-%m') AS period, id AS lease, format('team-{:02d}', t) AS tenant, start AS first,
        "end" AS last, 5e0 AS gpu_hours, 4.9e0 AS busy_observed_gpu_hours, 4.9e0 * (abs(hash(id)) % 100) / 100
        AS busy_gpu_hours, 12.5e0 AS on_demand_weight FROM lease ORDER BY period, id;
CREATE TABLE workload_period AS
    SELECT period, tenant, workload, any_value("user") AS "user", epoch_ms(min(first))::TIMESTAMPTZ AS start,
        epoch_ms(max(last))::TIMESTAMPTZ AS "end", sum(gpu_hours) AS gpu_hours, 0.6 AS utilization, 0.98 AS coverage,
        sum(on_demand_weight)::DECIMAL(38,4) AS cost, NULL::VARCHAR AS bottleneck
    FROM lease_period JOIN lease ON lease.id = lease GROUP BY period, tenant, workload ORDER BY period, tenant, cost DESC;
CREATE TABLE charge AS
    SELECT period, tenant, lease, workload, model, 'on_demand' AS class, NULL::VARCHAR AS reservation,
        epoch_ms(first)::DATE AS day, epoch_ms(first)::TIMESTAMPTZ AS start, epoch_ms(last)::TIMESTAMPTZ AS "end",
        1.0 AS gpus, gpu_hours, 2.5::DECIMAL(18,6) AS rate FROM lease_period JOIN lease ON lease.id = lease
    ORDER BY period, tenant, workload;
CREATE TABLE charge_day AS SELECT period, day, tenant, model, class, sum(gpu_hours) AS gpu_hours,
    sum(gpu_hours * rate::DOUBLE) AS charge_weight FROM charge GROUP BY ALL;
CREATE TABLE tenant_period AS
    SELECT period, tenant, sum(gpu_hours) AS allocated_gpu_hours, sum(gpu_hours) * 0.6 AS active_gpu_hours,
        0.0 AS reserved_unused_gpu_hours, 0.6 AS utilization, 0.98 AS coverage, sum(cost) AS usage,
        0::DECIMAL(38,4) AS reservation, 0::DECIMAL(38,4) AS idle, 0::DECIMAL(38,4) AS energy,
        0::DECIMAL(38,4) AS overhead, 0::DECIMAL(38,4) AS commitment, 0::DECIMAL(38,4) AS credit, 0::DECIMAL(38,4) AS adjustment, sum(cost) AS total,
        sum(cost) * 0.4 AS waste FROM workload_period GROUP BY period, tenant;
CREATE TABLE line_day AS SELECT period, day, tenant, 'usage' AS line, sum(charge_weight)::DECIMAL(38,4) AS amount
    FROM charge_day GROUP BY ALL;
CREATE TABLE held_day AS SELECT period, day, tenant, sum(gpu_hours) AS allocated_gpu_hours, sum(gpu_hours) AS
    observed_gpu_hours, sum(gpu_hours) * 0.6 AS active_gpu_hours, (sum(charge_weight) * 0.4)::DECIMAL(38,4) AS waste
    FROM charge_day GROUP BY ALL;
CREATE TABLE usage AS
    SELECT 'c' AS cluster, format('node-{:03d}', g // 8) AS node, format('GPU-{:08d}-0000', g) AS device, 'H100' AS model,
        CASE WHEN (g + h) % 3 = 0 THEN 'idle' ELSE 'allocated' END AS state,
        epoch_ms(TIMESTAMP '2025-12-01') + h * 3600000 AS start, start + 3600000 AS "end", 1::BIGINT AS weight_num,
        1::BIGINT AS weight_den FROM range(8760) x(h), range(1000) u(g);
CREATE TABLE finding AS SELECT 'gap' AS code, 12 AS count, 'holes' AS detail, NULL::VARCHAR AS subject,
    NULL::BIGINT AS start, NULL::BIGINT AS "end";
CREATE TABLE outage (tenant VARCHAR, model VARCHAR, gpus VARCHAR, start BIGINT, "end" BIGINT, device VARCHAR,
    cause VARCHAR);
CREATE TABLE reservation (id VARCHAR, tenant VARCHAR, model VARCHAR, gpus BIGINT, start TIMESTAMPTZ, "end" TIMESTAMPTZ);
CREATE TABLE rate AS SELECT '*' AS model, NULL::TIMESTAMPTZ AS start, NULL::TIMESTAMPTZ AS "end",
    2.5::DECIMAL(18,6) AS on_demand, NULL::DECIMAL(18,6) AS reserved, NULL::DECIMAL(18,6) AS overflow,
    NULL::DECIMAL(18,6) AS spot;
