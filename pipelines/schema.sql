-- The ledger's tables. Times of stages are ms since the epoch, UTC; times for people are TIMESTAMPTZ.

-- grain: one imported content of one source
CREATE TABLE IF NOT EXISTS imported (
    id          VARCHAR PRIMARY KEY,  -- of the content and of how it was read
    kind        VARCHAR NOT NULL,
    source      VARCHAR NOT NULL,     -- as the configuration or the command line names it
    configured  BOOLEAN NOT NULL,     -- a source of the configuration: its newest content counts
    sequence    BIGINT  NOT NULL,
    imported_at TIMESTAMPTZ NOT NULL
);

-- grain: part of the sample lake × import
CREATE TABLE IF NOT EXISTS lake_part (
    import_id   VARCHAR NOT NULL,
    cluster     VARCHAR NOT NULL,
    day         DATE    NOT NULL,
    path        VARCHAR NOT NULL,
    sample_rows BIGINT  NOT NULL
);

-- grain: live source; it was read up to `until`
CREATE TABLE IF NOT EXISTS watermark (
    source      VARCHAR NOT NULL,
    until       TIMESTAMPTZ NOT NULL
);

-- grain: live source × time in which it had stored nothing yet, and is asked again; ms
CREATE TABLE IF NOT EXISTS hole (
    source      VARCHAR NOT NULL,
    "start"     BIGINT  NOT NULL,
    "end"       BIGINT  NOT NULL
);

-- grain: live source × slice of the look-back, and how many samples its server said it had there when last asked; ms
CREATE TABLE IF NOT EXISTS counted (
    source      VARCHAR NOT NULL,
    "start"     BIGINT  NOT NULL,
    "end"       BIGINT  NOT NULL,
    asked       BIGINT  NOT NULL,
    samples     BIGINT  NOT NULL
);

-- grain: time before which samples were let go; ms, a UTC midnight
CREATE TABLE IF NOT EXISTS pruned (
    until       BIGINT NOT NULL
);

-- grain: finding of one import
CREATE TABLE IF NOT EXISTS import_finding (
    import_id   VARCHAR NOT NULL,
    code        VARCHAR NOT NULL,
    count       BIGINT  NOT NULL,
    detail      VARCHAR NOT NULL,
    subject     VARCHAR,
    "start"     BIGINT,               -- when it was the case; null: nobody knows
    "end"       BIGINT
);
ALTER TABLE import_finding ADD COLUMN IF NOT EXISTS subject VARCHAR;
ALTER TABLE import_finding ADD COLUMN IF NOT EXISTS "start" BIGINT;
ALTER TABLE import_finding ADD COLUMN IF NOT EXISTS "end" BIGINT;

-- grain: row of a scheduler's table, as imported; nth tells equal rows of one import apart
CREATE TABLE IF NOT EXISTS record (
    import_id VARCHAR NOT NULL, nth BIGINT NOT NULL,
    kind VARCHAR, cluster VARCHAR, workload VARCHAR, labelled_as VARCHAR, "user" VARCHAR, tenant VARCHAR, class VARCHAR,
    "start" TIMESTAMPTZ, "end" TIMESTAMPTZ, ended BOOLEAN, gpus VARCHAR, device VARCHAR, model VARCHAR, nodes VARCHAR[],
    slurm_account VARCHAR, slurm_partition VARCHAR, slurm_qos VARCHAR, slurm_user VARCHAR
);

-- grain: node that a scheduler's accounting speaks for, as imported
CREATE TABLE IF NOT EXISTS accounting (
    import_id VARCHAR NOT NULL, cluster VARCHAR, node VARCHAR, "from" TIMESTAMPTZ, "to" TIMESTAMPTZ
);

-- grain: row of an inventory, as imported
CREATE TABLE IF NOT EXISTS inventory (
    import_id VARCHAR NOT NULL,
    cluster VARCHAR, node VARCHAR, device VARCHAR, model VARCHAR, gpus BIGINT, slots BIGINT, owner VARCHAR,
    "from" TIMESTAMPTZ, "to" TIMESTAMPTZ
);
