// Defines the tables as numbered migrations. Money is in nano-dollars, times are in Unix milliseconds.

/** How many requests a block has, for which there is one row each in request_extent and request_facts. */
export const blockSize = 1024

/** The migrations. Each is applied once, in order; a released one is never changed. */
export const migrations: readonly string[] = [
  `
  -- What happened to money. Never changed: rows are only added, each with the hash of the one before (see journal.ts).
  -- amount: what the row adds to posted of every scope (a grant is negative, a void 0); a cost row adds nothing.
  CREATE TABLE journal (
    seq INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,            -- grant | settle | void | adjust | cost
    request_id TEXT NOT NULL,
    part TEXT NOT NULL,            -- '' for the exchange itself; a realtime session has one part per response
    class TEXT NOT NULL,           -- terminal | adjust:<evidence> | cost:<attempt>
    scopes TEXT NOT NULL,          -- {"<scope>": "day" | "month" | "total", …}, outermost first
    amount INTEGER NOT NULL,
    reserved INTEGER NOT NULL,
    usage_json TEXT,
    model TEXT,
    channel TEXT,
    price_version TEXT,
    source TEXT,
    ts_ms INTEGER NOT NULL,        -- of the reservation: decides the windows
    boot_id INTEGER NOT NULL,
    prev_hash BLOB NOT NULL,
    hash BLOB NOT NULL,
    UNIQUE (request_id, part, class)
  ) STRICT;
  CREATE TRIGGER journal_is_not_changed BEFORE UPDATE ON journal BEGIN SELECT RAISE(ABORT, 'the journal is only appended to'); END;
  CREATE TRIGGER journal_is_not_cut BEFORE DELETE ON journal WHEN OLD.seq > coalesce((SELECT last FROM volume ORDER BY first DESC LIMIT 1), 0)
    BEGIN SELECT RAISE(ABORT, 'the journal is only appended to'); END;

  -- Open holds, with all that ending one after a crash takes. The row goes when the hold ends: the journal tells the rest.
  CREATE TABLE reservation (
    id INTEGER PRIMARY KEY,
    request_id TEXT NOT NULL,
    part TEXT NOT NULL,
    scopes TEXT NOT NULL,
    amount INTEGER NOT NULL CHECK (amount >= 0),
    model TEXT NOT NULL,
    price_version TEXT NOT NULL REFERENCES price (version),
    input_units INTEGER NOT NULL,
    max_out INTEGER NOT NULL,
    dispatched INTEGER NOT NULL,
    channel TEXT,
    delivered_units INTEGER NOT NULL,
    endpoint TEXT,
    client_protocol TEXT,
    streamed INTEGER NOT NULL,
    ts_ms INTEGER NOT NULL,
    boot_id INTEGER NOT NULL,
    lease_until INTEGER            -- of a poller that carries it over a restart; null for what lives as long as its connection
  ) STRICT;

  -- What the journal and the open holds add up to, as of the batch head.balanced_batch: written about once a second.
  CREATE TABLE balance (
    scope TEXT NOT NULL,
    window TEXT NOT NULL,          -- 2026-11-21 | 2026-11 | total
    "limit" INTEGER,
    posted INTEGER NOT NULL,
    pending INTEGER NOT NULL CHECK (pending >= 0),
    PRIMARY KEY (scope, window)
  ) STRICT, WITHOUT ROWID;

  -- Prices as reservations saw them: {"<class>": "<nano-dollars per million units>", …}, with "tiers" as price.ts renders them.
  CREATE TABLE price (version TEXT PRIMARY KEY, json TEXT NOT NULL) STRICT, WITHOUT ROWID;

  CREATE TABLE key (
    name TEXT PRIMARY KEY,
    sha256 BLOB NOT NULL UNIQUE,
    hint TEXT NOT NULL,
    tenant TEXT NOT NULL,
    project TEXT,
    member TEXT,
    models TEXT NOT NULL,          -- JSON, as are the next two
    endpoints TEXT NOT NULL,
    limits TEXT NOT NULL,
    budget_limit INTEGER,
    budget_per TEXT,
    expires INTEGER,
    created INTEGER NOT NULL,
    revoked INTEGER,
    crc INTEGER NOT NULL           -- of all columns that no hash covers, see checksum.ts: what was changed by hand shows
  ) STRICT, WITHOUT ROWID;

  -- The request log. seq is the order of writing; written never decreases with it.
  CREATE TABLE request (
    seq INTEGER PRIMARY KEY,
    request_id TEXT NOT NULL UNIQUE,
    tenant TEXT,
    key TEXT,
    model TEXT,
    time INTEGER NOT NULL,
    written INTEGER NOT NULL,
    json TEXT NOT NULL,
    crc INTEGER NOT NULL
  ) STRICT;

  -- Which tenants, keys and models occur in a block of 1024 requests (seq / 1024); written when the block is full.
  CREATE TABLE request_block (
    block INTEGER NOT NULL,
    field TEXT NOT NULL,           -- tenant | key | model
    value TEXT NOT NULL,
    PRIMARY KEY (block, field, value)
  ) STRICT, WITHOUT ROWID;

  -- What a full block of the request log takes, about, when the last of its records was written, and the latest time of one.
  CREATE TABLE request_extent (
    block INTEGER PRIMARY KEY,
    bytes INTEGER NOT NULL,
    written INTEGER NOT NULL,
    time INTEGER NOT NULL
  ) STRICT;

  -- The journal's oldest rows, sealed in files, see volume.ts. They follow each other without a gap, from row 1 on.
  CREATE TABLE volume (
    first INTEGER PRIMARY KEY,
    last INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    file TEXT NOT NULL,            -- its name in the folder <database>.journal
    sha256 BLOB NOT NULL,          -- of the file
    previous BLOB NOT NULL,        -- the hash of the row before the first
    hash BLOB NOT NULL,            -- the hash of the last row
    oldest INTEGER NOT NULL,       -- earliest and latest time of a row
    newest INTEGER NOT NULL,
    sealed INTEGER NOT NULL
  ) STRICT;

  -- Answers that are given again to whoever repeats a request, see answers.ts.
  CREATE TABLE answer (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id BLOB NOT NULL UNIQUE,
    time INTEGER NOT NULL,
    bytes INTEGER NOT NULL,        -- of the body
    asked BLOB NOT NULL,
    status INTEGER NOT NULL,
    type TEXT NOT NULL,
    streamed INTEGER NOT NULL,
    body BLOB                      -- null: it was too large
  ) STRICT;
  CREATE INDEX answer_time ON answer (time, bytes);

  CREATE TABLE outbox (seq INTEGER PRIMARY KEY AUTOINCREMENT, payload TEXT NOT NULL) STRICT;

  -- Where things are kept that clients know by an id and an upstream has.
  CREATE TABLE route (
    tenant TEXT NOT NULL,
    project TEXT NOT NULL,         -- '' for none
    id TEXT NOT NULL,
    kind TEXT NOT NULL,            -- response | item
    channel TEXT NOT NULL,         -- its name when the id was given
    account TEXT NOT NULL,         -- fingerprint of address and credential
    model TEXT NOT NULL,
    expires INTEGER NOT NULL,
    PRIMARY KEY (tenant, project, id)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX route_expires ON route (expires);

  -- Each start begins a history, with a random name that the commit log has too: the log of another one is never taken for its own.
  CREATE TABLE boot (
    boot_id INTEGER PRIMARY KEY,
    history BLOB NOT NULL UNIQUE,
    began INTEGER NOT NULL
  ) STRICT;

  -- Work that goes on after its request was answered, and what came of it until it expires. Results are files, see results.ts.
  CREATE TABLE work (
    tenant TEXT NOT NULL,
    project TEXT NOT NULL,         -- '' for none
    id TEXT NOT NULL,
    kind TEXT NOT NULL,
    open INTEGER NOT NULL,
    created INTEGER NOT NULL,
    expires INTEGER,               -- null while it is open
    json TEXT NOT NULL,
    bytes INTEGER GENERATED ALWAYS AS (json ->> '$.bytes') VIRTUAL, -- how much room a result takes, where somebody counts it
    PRIMARY KEY (tenant, project, id)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX work_open ON work (created) WHERE open = 1;
  CREATE INDEX work_listed ON work (tenant, project, kind, created, id);
  CREATE INDEX work_expires ON work (expires) WHERE expires IS NOT NULL;
  -- Of each tenant there is so much, and the oldest go.
  CREATE INDEX work_room ON work (tenant, open, created, bytes) WHERE bytes IS NOT NULL;

  -- Where the writer stands: a batch is known to be committed by its number, and the journal's last row by its hash.
  CREATE TABLE head (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    boot_id INTEGER NOT NULL,
    batch INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    hash BLOB NOT NULL,
    balanced_batch INTEGER NOT NULL,
    balanced_seq INTEGER NOT NULL, -- the last journal row that the balances include
    requests INTEGER NOT NULL,     -- how many rows there are, as of the next
    keys INTEGER NOT NULL,
    unrecorded INTEGER NOT NULL,   -- requests that arrived up to then may have no record any more
    history BLOB NOT NULL,
    open INTEGER NOT NULL,         -- 1: the commit log may have more, both its files must be there
    writes INTEGER NOT NULL,       -- transactions; page 1 has the same number, see write-ahead.ts
    crc INTEGER
  ) STRICT;
  INSERT INTO head VALUES (1, 0, 0, 0, zeroblob(32), 0, 0, 0, 0, 0, x'', 0, 0, NULL);
  `,
  `
  -- Tokens that a response was counted with, which one that goes on with it reads again; null where nobody said.
  ALTER TABLE route ADD COLUMN tokens INTEGER;
  `,
  `
  -- Whose room an answer takes; that of answers which were kept before is nobody's.
  ALTER TABLE answer ADD COLUMN tenant TEXT NOT NULL DEFAULT '';
  -- Headers that belong to the answer, as a JSON object.
  ALTER TABLE answer ADD COLUMN headers TEXT NOT NULL DEFAULT '{}';
  CREATE INDEX answer_room ON answer (tenant, time, bytes);
  `,
  `
  -- Units of the request that are no tokens, which a recovery charges, as JSON: {"<class>": <units>, …}; null for none.
  ALTER TABLE reservation ADD COLUMN pieces TEXT;
  `,
  `
  -- What the caller was tagged with when the request arrived, as a JSON object of texts with sorted names; null for nothing.
  ALTER TABLE journal ADD COLUMN tags TEXT;
  -- What the upstream charges the operator, and the version of the price by which it follows from the usage; null where
  -- the file says nothing of it.
  ALTER TABLE journal ADD COLUMN cost INTEGER;
  ALTER TABLE journal ADD COLUMN cost_price TEXT;
  ALTER TABLE reservation ADD COLUMN tags TEXT;
  ALTER TABLE reservation ADD COLUMN cost_price TEXT;
  `,
  `
  -- What operators change while the gateway runs: tenants, projects, members, keys and the like.
  CREATE TABLE document (
    number INTEGER PRIMARY KEY,    -- the order in which they were first put
    kind TEXT NOT NULL,
    id TEXT NOT NULL,
    json TEXT NOT NULL,
    crc INTEGER NOT NULL,          -- of kind, id and json, see checksum.ts: a change by hand is found
    UNIQUE (kind, id)
  ) STRICT;

  -- Who changed what. Rows are only added, each with a hash over the one before (see journal.ts).
  CREATE TABLE audit (seq INTEGER PRIMARY KEY, time INTEGER NOT NULL, json TEXT NOT NULL, hash BLOB NOT NULL) STRICT;
  CREATE TRIGGER audit_is_not_changed BEFORE UPDATE ON audit BEGIN SELECT RAISE(ABORT, 'the audit log is only appended to'); END;
  CREATE TRIGGER audit_is_not_cut BEFORE DELETE ON audit BEGIN SELECT RAISE(ABORT, 'the audit log is only appended to'); END;

  ALTER TABLE head RENAME COLUMN keys TO documents;
  ALTER TABLE head ADD COLUMN audits INTEGER NOT NULL DEFAULT 0;
  ALTER TABLE head ADD COLUMN audit_hash BLOB NOT NULL DEFAULT x'';
  `,
  `
  -- What the journal adds up to, by day (since 1970, UTC), spender, model, channel and prices: written in the transaction
  -- of the entries. '' stands for none.
  CREATE TABLE spend_day (
    day INTEGER NOT NULL,
    spender INTEGER NOT NULL,
    model TEXT NOT NULL,
    channel TEXT NOT NULL,
    price TEXT NOT NULL,           -- versions; '' as cost_price: the cost is not known
    cost_price TEXT NOT NULL,
    requests INTEGER NOT NULL,     -- that ended
    charge INTEGER NOT NULL,       -- what customers pay
    failed INTEGER NOT NULL,       -- what failed attempts are worth at their prices, which nobody pays
    cost INTEGER NOT NULL,         -- what the upstream charges
    input INTEGER NOT NULL,        -- units that were charged
    cached_input INTEGER NOT NULL,
    cache_write INTEGER NOT NULL,
    output INTEGER NOT NULL,
    reasoning INTEGER NOT NULL,
    units TEXT,                    -- those of other classes, {"<class>": <units>, …}
    PRIMARY KEY (day, spender, model, channel, price, cost_price)
  ) STRICT, WITHOUT ROWID;
  -- The same by month (since the year 0), for what needs no days.
  CREATE TABLE spend_month (
    month INTEGER NOT NULL,
    spender INTEGER NOT NULL,
    model TEXT NOT NULL,
    channel TEXT NOT NULL,
    price TEXT NOT NULL,
    cost_price TEXT NOT NULL,
    requests INTEGER NOT NULL,
    charge INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    cost INTEGER NOT NULL,
    input INTEGER NOT NULL,
    cached_input INTEGER NOT NULL,
    cache_write INTEGER NOT NULL,
    output INTEGER NOT NULL,
    reasoning INTEGER NOT NULL,
    units TEXT,
    PRIMARY KEY (month, spender, model, channel, price, cost_price)
  ) STRICT, WITHOUT ROWID;
  -- Whom charges belong to, and what the caller was tagged with then.
  CREATE TABLE spender (
    id INTEGER PRIMARY KEY,
    tenant TEXT NOT NULL,
    project TEXT NOT NULL,
    member TEXT NOT NULL,
    key TEXT NOT NULL,
    tags TEXT NOT NULL,
    UNIQUE (tenant, project, member, key, tags)
  ) STRICT;
  `,
  `
  -- From here on a scope may count in several windows besides the total, also weeks and hours: {"<scope>": ["month", "hour"]},
  -- in journal and reservation. balance has them as 2026-W47 and 2026-11-21T13. A row with the window 30d has nothing but the
  -- limit of a rolling budget, whose hours a start reads.
  SELECT 1;
  `,
  `
  -- What the records of a full block are searched by, in columns, see facts.ts. Blocks of before have none, and are read
  -- record by record.
  CREATE TABLE request_facts (
    block INTEGER PRIMARY KEY,
    time_from REAL NOT NULL,
    time_to REAL NOT NULL,
    status_from REAL NOT NULL,
    status_to REAL NOT NULL,
    cost_from REAL NOT NULL,
    cost_to REAL NOT NULL,
    duration_from REAL NOT NULL,
    duration_to REAL NOT NULL,
    columns BLOB NOT NULL
  ) STRICT;
  `,
  `
  -- What the audit log is searched by. An index has the entries of one value in their order, so a page of it is read as such.
  CREATE INDEX audit_object ON audit (json ->> '$.object');
  CREATE INDEX audit_actor ON audit (json ->> '$.actor');
  CREATE INDEX audit_tenant ON audit (json ->> '$.tenant');
  CREATE INDEX audit_action ON audit (json ->> '$.action');
  CREATE INDEX audit_object_kind ON audit (json ->> '$.object_kind');
  CREATE INDEX audit_outcome ON audit (json ->> '$.outcome');
  `,
  `
  -- What requests add up to by the minute in which they arrived (since 1970), for two days: see traffic-table.ts.
  CREATE TABLE traffic_minute (
    scope TEXT NOT NULL,           -- '' all | tenant:<name> | model:<name> | channel:<name>
    time INTEGER NOT NULL,
    model TEXT NOT NULL,           -- of a tenant, else ''
    channel TEXT NOT NULL,         -- of a tenant or a model, else ''
    requests INTEGER NOT NULL,
    codes TEXT NOT NULL,           -- of errors, {"<code>": <count>, …}; '' for none
    input INTEGER NOT NULL,        -- tokens
    output INTEGER NOT NULL,
    cost INTEGER NOT NULL,         -- what was charged
    first TEXT NOT NULL,           -- how soon answers began, see spread.ts
    PRIMARY KEY (scope, time, model, channel)
  ) STRICT, WITHOUT ROWID;
  -- The same by hour, for longer.
  CREATE TABLE traffic_hour (
    scope TEXT NOT NULL,
    time INTEGER NOT NULL,
    model TEXT NOT NULL,
    channel TEXT NOT NULL,
    requests INTEGER NOT NULL,
    codes TEXT NOT NULL,
    input INTEGER NOT NULL,
    output INTEGER NOT NULL,
    cost INTEGER NOT NULL,
    first TEXT NOT NULL,
    PRIMARY KEY (scope, time, model, channel)
  ) STRICT, WITHOUT ROWID;
  `,
  `
  -- Rows of the journal that a book of many nodes had before, and the end of the chain that each was in: see origins.ts.
  CREATE TABLE journal_origin (
    first INTEGER PRIMARY KEY,
    last INTEGER NOT NULL,
    node TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    hash BLOB NOT NULL,
    UNIQUE (node, epoch)
  ) STRICT;
  `,
  `
  -- From here on request.json has what its row has no column for, as an array of values: see record-text.ts. Older rows
  -- stay as they are. This number keeps programs from the file that read objects alone.
  `,
  `
  -- What occurs in a block is among its facts, whose columns are as narrow as their values let them be from here on.
  DROP TABLE request_block;
  `
]
