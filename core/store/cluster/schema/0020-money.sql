-- The book of all gateways. Money is in nano-dollars, times are in Unix milliseconds, and nodes are gateways.

-- The names of balances: what a scope may spend in one window. Rows are only added.
create table sluice.cell (
  id bigint generated always as identity primary key,
  scope text not null,           -- project:acme/web
  "window" text not null,        -- 2026-11-21 | 2026-W47 | 2026-11 | 2026-11-21T13 | total, or 30d for the limit of a rolling budget
  hour int,                      -- of a window that is an hour: which one since 1970
  unique (scope, "window")
);
create index cell_hour on sluice.cell (scope, hour) where hour is not null;

-- What the journal and the open holds add up to. Whoever changes several locks them first, in the order of the ids.
create table sluice.balance (
  id bigint primary key,         -- of the cell
  posted bigint not null default 0,
  pending bigint not null default 0 check (pending >= 0),
  "limit" bigint,                -- of the budget that let the latest hold in; null for none
  sliced bigint not null default 0 check (sliced >= 0),  -- what nodes may hold by themselves, of a budget with this name
  edge timestamptz               -- until then no slices are given, as somebody waits for those of others
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

-- What each node may still hold by itself. It becomes pending with the holds, and is gone with the epoch of the node.
create table sluice.slice (
  node text not null,
  cell bigint not null,          -- of the budget; of a rolling one that which has its limit
  amount bigint not null check (amount >= 0),
  used bigint not null default 0,  -- of it what is admitted already and not written, as the node said last
  used_hour int not null default 0, -- of a rolling budget: the latest hour that any of that may be of
  primary key (node, cell)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
create index slice_cell on sluice.slice (cell);

-- Who may write, and the answer to its last batch: a batch that is sent again gets it again.
create table sluice.node (
  name text primary key,
  start text not null,           -- of which start it is: a later one has another
  epoch int not null,            -- grows with each start, and when another node ends what this one left open
  joined int not null,           -- the epoch that the node itself began last
  batch bigint not null,         -- the last one of that epoch
  verdicts int[] not null default '{}',
  posted bigint[] not null default '{}',
  used bigint[] not null default '{}',
  grants bigint[] not null default '{}',
  edges bigint[] not null default '{}',
  expires timestamptz not null   -- from then on others may end what it left open
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

-- Prices as reservations saw them, by version. Rows are only added.
create table sluice.price (
  version text primary key,
  json text not null,
  number bigint generated always as identity unique
);

-- Open holds, with all that ending one takes when its node is gone. Who deletes the row writes the end.
create table sluice.hold (
  request_id text not null,
  part text not null,            -- '' for the exchange itself
  node text not null,
  cells bigint[] not null,       -- the balances that it counts in
  scopes text not null,          -- {"<scope>": "day" | ["month", "hour"] | …}, outermost first
  tags text,
  amount bigint not null check (amount >= 0),
  model text not null,
  price_version text not null,
  cost_price text,
  input_units bigint not null,
  max_out bigint not null,
  pieces text,
  channel text,                  -- null: no upstream was asked
  delivered bigint not null,
  endpoint text,
  client_protocol text,
  streamed boolean not null,
  time bigint not null,          -- of the reservation: decides the windows
  lease_until bigint,            -- of a hold that outlives its exchange
  primary key (request_id, part)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
-- For whoever takes over what a node has left open.
create index hold_node on sluice.hold (node);

-- What happened to money, by the day of the reservation, so that a request has one end whenever that is written.
create table sluice.journal (
  day date not null,
  node text not null,
  epoch int not null,
  seq bigint not null,           -- counts from 1 in each epoch of a node, without gaps
  prev_hash bytea not null,
  hash bytea not null,           -- of the row and the one before, made by the node
  kind text not null,            -- settle | void | cost | adjust
  request_id text not null,
  part text not null,
  class text not null,           -- terminal | cost:<attempt> | adjust:late; cost:0 of the attempt whose process is gone
  scopes text not null,
  amount bigint not null,
  reserved bigint not null,
  usage_json text,
  model text,
  channel text,
  price_version text,
  source text,
  ts_ms bigint not null,
  tags text,
  cost bigint,
  cost_price text,
  primary key (day, request_id, part, class)
) partition by range (day);
-- For checking each chain from its beginning.
create index journal_chained on sluice.journal (node, epoch, seq);

create function sluice.journal_refuses() returns trigger language plpgsql as $$
begin
  raise exception 'the journal is only appended to';
end $$;
create trigger journal_is_not_changed before update or delete on sluice.journal
  for each row execute function sluice.journal_refuses();
create trigger journal_is_not_emptied before truncate on sluice.journal
  for each statement execute function sluice.journal_refuses();

-- Where the chain of each epoch of a node ends.
create table sluice.journal_chain (
  node text not null,
  epoch int not null,
  seq bigint not null,
  hash bytea not null,
  primary key (node, epoch)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

-- Thresholds of budgets that some node has told, so that no other one tells them again.
create table sluice.told (
  scope text not null,
  per text not null,
  "window" text not null,
  threshold int not null,
  "limit" bigint not null,
  primary key (scope, per, "window", threshold, "limit")
);

-- Makes the journal take the entries of a day. Attaching a table waits for nobody who writes, as making a partition does.
-- The catalogue is read as a table: what to_regclass remembers may be older than the lock.
create function sluice.journal_day_1(p_day date) returns void language plpgsql as $$
declare
  partition text := 'journal_' || to_char(p_day, 'YYYY_MM_DD');
begin
  if exists (select from pg_class where relname = partition and relnamespace = 'sluice'::regnamespace) then return; end if;
  perform pg_advisory_xact_lock(7583102947);
  if exists (select from pg_class where relname = partition and relnamespace = 'sluice'::regnamespace) then return; end if;
  execute format('create table sluice.%I (like sluice.journal including all)', partition);
  -- Other than those of rows, triggers of statements are not those of the partitions, too.
  execute format('create trigger journal_is_not_emptied before truncate on sluice.%I
    for each statement execute function sluice.journal_refuses()', partition);
  execute format('alter table sluice.journal attach partition sluice.%I for values from (%L) to (%L)', partition, p_day, p_day + 1);
end $$;

-- The balances of these names, which are made where they are missing. The names come sorted, so that two who make the
-- same ones wait for each other in one order.
create function sluice.money_cells_1(p_scopes text[], p_windows text[], p_hours int[])
  returns table (id bigint, posted bigint, pending bigint, "limit" bigint) language plpgsql as $$
begin
  with made as (
    insert into sluice.cell (scope, "window", hour) select * from unnest(p_scopes, p_windows, p_hours)
      on conflict do nothing returning cell.id)
  insert into sluice.balance (id) select made.id from made order by made.id;
  return query
    select c.id, b.posted, b.pending, b."limit"
      from unnest(p_scopes, p_windows) with ordinality as n(scope, "window", place)
      join sluice.cell c on c.scope = n.scope and c."window" = n."window"
      join sluice.balance b on b.id = c.id order by n.place;
end $$;

-- How much of a budget a node gets: a part of what nobody has, so that half of it is left when all ask at once, and slices
-- shrink towards the end. Nothing where less than p_least is left for each node.
create function sluice.slice_1(p_free bigint, p_want bigint, p_least bigint, p_nodes int) returns bigint
  language sql immutable as $$
  select case when p_free / p_nodes < greatest(p_least, 2) then 0 else least(p_want, p_free / p_nodes / 2) end
$$;

-- The epoch of a node is over, and so are its slices.
create function sluice.slices_back_1(p_node text) returns void language plpgsql as $$
begin
  perform from sluice.balance b where b.id in (select s.cell from sluice.slice s where s.node = p_node)
    order by b.id for no key update;
  update sluice.balance b set sliced = b.sliced - s.amount from sluice.slice s where s.node = p_node and b.id = s.cell;
  delete from sluice.slice where node = p_node;
end $$;

-- A node begins an epoch: its first (p_again: false), or a further one after others took it for gone. Whatever an earlier
-- one still sends is refused from here on.
create function sluice.money_join_1(p_node text, p_start text, p_again boolean, p_lease int) returns int
  language plpgsql as $$
declare
  now_in int;
begin
  insert into sluice.node (name, start, epoch, joined, batch, expires)
    values (p_node, p_start, 1, 1, 0, clock_timestamp() + p_lease * interval '1 millisecond')
    on conflict (name) do update set start = p_start, epoch = node.epoch + 1, joined = node.epoch + 1, batch = 0, expires = excluded.expires
      where node.start = p_start or not p_again
    returning epoch into now_in;
  if not found then raise exception 'replaced' using errcode = 'SL003'; end if;
  perform sluice.slices_back_1(p_node);
  insert into sluice.journal_chain values (p_node, now_in, 0, '');
  return now_in;
end $$;

-- Whether nobody goes on with a hold whose node is gone: it lives as long as its exchange, its time is over, or it was
-- detached for work that is not there, as its node ended before that was written.
create function sluice.hold_is_left_1(p_lease bigint, p_request text) returns boolean language sql stable as $$
  select p_lease is null or not exists (select from sluice.work w where w.open and w.request_id = p_request)
$$;

-- Takes over what a node has left open that has not been heard of for its lease, and fences it. Several may try at once.
-- What is taken over is not detached any more. A lease has ended that was to end by `p_by`, or beyond `p_beyond`, where
-- the clock was set back.
create function sluice.money_take_over_1(p_node text, p_epoch int, p_most int, p_by timestamptz, p_beyond timestamptz)
  returns setof sluice.hold language plpgsql as $$
declare
  gone text;
begin
  perform from sluice.node where name = p_node and epoch = p_epoch for share;
  if not found then raise exception 'fenced' using errcode = 'SL001'; end if;
  select n.name into gone from sluice.node n
    where n.name <> p_node and (n.expires < p_by or n.expires > p_beyond) and exists (
      select from sluice.hold h where h.node = n.name and sluice.hold_is_left_1(h.lease_until, h.request_id))
    limit 1 for update skip locked;
  if not found then return; end if;
  update sluice.node set epoch = epoch + 1 where name = gone;
  perform sluice.slices_back_1(gone);
  return query
    update sluice.hold h set node = p_node, lease_until = null
      where (h.request_id, h.part) in (
        select o.request_id, o.part from sluice.hold o
          where o.node = gone and sluice.hold_is_left_1(o.lease_until, o.request_id) limit p_most)
    returning h.*;
end $$;

-- Ends the slices of a node that has not been heard of for its lease, and fences it. Returns whether there was one.
create function sluice.slices_take_over_1(p_node text, p_epoch int, p_by timestamptz, p_beyond timestamptz)
  returns boolean language plpgsql as $$
declare
  gone text;
begin
  perform from sluice.node where name = p_node and epoch = p_epoch for share;
  if not found then raise exception 'fenced' using errcode = 'SL001'; end if;
  select n.name into gone from sluice.node n
    where n.name <> p_node and (n.expires < p_by or n.expires > p_beyond) and exists (
      select from sluice.slice s where s.node = n.name)
    limit 1 for update skip locked;
  if not found then return false; end if;
  update sluice.node set epoch = epoch + 1 where name = gone;
  perform sluice.slices_back_1(gone);
  return true;
end $$;

-- Goes on with a detached hold whose work has been taken over. What is returned says which node had it until now.
create function sluice.money_adopt_1(p_node text, p_epoch int, p_request text, p_part text)
  returns setof sluice.hold language plpgsql as $$
declare
  found_hold sluice.hold;
begin
  perform from sluice.node where name = p_node and epoch = p_epoch for share;
  if not found then raise exception 'fenced' using errcode = 'SL001'; end if;
  select * into found_hold from sluice.hold h
    where h.request_id = p_request and h.part = p_part and h.lease_until is not null for no key update;
  if not found then return; end if;
  update sluice.hold h set node = p_node where h.request_id = p_request and h.part = p_part and h.node <> p_node;
  return next found_hold;
end $$;

-- All that a node has decided on and asks for at one moment, once: ends, which make room, then admissions in the order
-- in which they came. One that has `ended` has its end among the entries, and in p_posted what it is charged: it is taken
-- out of slices, and never held. Positions count the cells from 1 on, and then the sums of hours. An admission that lacks
-- only what others have in slices is not decided (-3), and these are told to give back; where only nodes have it that are
-- gone, that takes longer (-4). What they have admitted from slices does not come back, and is used.
-- Arrays, as they are read several times faster than JSON is.
create function sluice.money_batch_1(
  p_node text, p_epoch int, p_batch bigint, p_lease int,
  p_cells bigint[],                                                 -- all that change, sorted
  p_busiest bigint,                                                 -- the one that most of the batch count in; null for none
  p_posted bigint[], p_freed bigint[],                              -- by cell: what the ends charge, and what they held
  p_limited bigint[], p_limits bigint[], p_limited_by int[],        -- cells whose limit has changed, by which admission; 0: any
  p_sum_scopes text[], p_sum_from int[], p_sum_to int[],            -- sums of hours, for rolling budgets
  p_requests text[], p_parts text[], p_amounts bigint[],            -- admissions,
  p_have_ended boolean[], p_kinds int[],                            -- and what kind each is of
  p_runs_to int[], p_run_amounts bigint[],                          -- the ends and sums of those in a row that are alike in both
  p_counts int[], p_counts_to int[],                                -- of each kind: the positions that its admissions count in,
  p_caps int[], p_cap_limits bigint[], p_caps_to int[],             -- and their budgets, outermost first:
  p_cap_cells int[], p_cap_own boolean[],                           -- the cells of the slices, and whether it is taken from the node's
  p_kind_cells text[], p_kind_scopes text[], p_kind_tags text[],    -- columns of the holds of a kind, and of each hold
  p_models text[], p_price_versions text[], p_cost_prices text[], p_input_units bigint[], p_max_outs bigint[], p_pieces text[],
  p_channels text[], p_delivered bigint[], p_endpoints text[], p_client_protocols text[], p_streamed boolean[], p_times bigint[],
  p_slices int[], p_slice_used int[], p_slice_limits bigint[],      -- slices that change: their cells, what counts, and the limits;
  p_backs bigint[], p_wants bigint[], p_least bigint[],             -- what is given back, wanted, and must be left for each node;
  p_unwritten bigint[],                                             -- what of them is admitted and not in this batch; null: as before
  p_restored int,                                                   -- how many admissions, the last ones, were lost and come back
  p_all_edges boolean,                                              -- to tell of all slices of the node whose others wait for
  p_prices json, p_touched json, p_leased json,
  p_ended text[], p_ended_parts text[],                             -- the open holds that end
  p_entry_kinds text[], p_entry_requests text[], p_entry_parts text[], p_classes text[], p_scopes text[],
  p_charged bigint[], p_reserved bigint[], p_usages text[], p_entry_models text[], p_entry_channels text[],
  p_entry_prices text[], p_sources text[], p_entry_times bigint[], p_tags text[], p_costs bigint[], p_entry_cost_prices text[],
  p_hashes text[], p_seq bigint                                     -- of the row before the entries and of each; of the last one
) returns table (verdicts int[], posted bigint[], used bigint[], grants bigint[], edges bigint[]) language plpgsql as $$
declare
  time_now timestamptz;          -- behind the locks, for which a batch may have waited
  most constant bigint := 4611686018427387904;
  cells int := cardinality(p_cells);
  held bigint[];
  sliced bigint[];
  own bigint[];                  -- by how much the slices of this node change
  until timestamptz[];
  recalled int[] := '{}';
  returned text;                 -- balances of which something comes back that others wait for
  gone bigint[];                 -- what nodes have in slices that are gone
  spoken bigint[];               -- what the others have admitted from slices, and not written
  spoken_hour int[];             -- and until which hour that counts, of a rolling budget
  hour int;
  lacking int;
  cell_at int;
  nodes int;
  bounds bigint[];
  raised boolean := false;
  near boolean := false;         -- whether anything was only lacking slices
  taken bigint[];                -- admissions whose name an open hold has
  sum_posted bigint;
  sum_used bigint;
  found_ended bigint;
  found_touched int;
  entries int := cardinality(p_entry_kinds);
  whole boolean;                 -- whether all of a run are admitted at once
  first int := 1;
  last int;
  amount bigint;
  verdict int;
  kind int;
  first_count int;
  first_cap int;
begin
  update sluice.node n set batch = p_batch, expires = clock_timestamp() + p_lease * interval '1 millisecond'
    where n.name = p_node and n.epoch = p_epoch and n.batch = p_batch - 1;
  if not found then
    return query select n.verdicts, n.posted, n.used, n.grants, n.edges from sluice.node n
      where n.name = p_node and n.epoch = p_epoch and n.batch = p_batch;
    if not found then raise exception 'fenced' using errcode = 'SL001'; end if;
    return;
  end if;

  -- A lock of a row goes to whoever comes at the right moment, and this one to whoever has waited for longest. Nobody takes
  -- it who has locked balances.
  if p_busiest is not null then perform pg_advisory_xact_lock(741, (p_busiest % 2147483647)::int); end if;
  perform from sluice.balance b where b.id = any (p_cells) order by b.id for no key update;
  time_now := clock_timestamp();
  if p_prices is not null then
    insert into sluice.price (version, json) select * from json_to_recordset(p_prices) as p(version text, json text)
      on conflict do nothing;
  end if;
  -- Corrections are entries of holds that have ended.
  if entries > 0 then
    if cardinality(p_ended) > 0 then
      with gone as (
        delete from sluice.hold h using unnest(p_ended, p_ended_parts) as e(request_id, part)
          where h.request_id = e.request_id and h.part = e.part and h.node = p_node returning 1)
      select count(*) into found_ended from gone;
      if found_ended <> cardinality(p_ended) then raise exception 'lost' using errcode = 'SL002'; end if;
    end if;
    insert into sluice.journal
      select date '1970-01-01' + (e.ts_ms / 86400000)::int, p_node, p_epoch, p_seq - entries + e.place,
        decode(p_hashes[e.place], 'hex'), decode(p_hashes[e.place + 1], 'hex'), e.kind, e.request_id, e.part, e.class,
        e.scopes, e.amount, e.reserved, e.usage_json, e.model, e.channel, e.price_version, e.source, e.ts_ms, e.tags, e.cost,
        e.cost_price
      from unnest(p_entry_kinds, p_entry_requests, p_entry_parts, p_classes, p_scopes, p_charged, p_reserved, p_usages,
        p_entry_models, p_entry_channels, p_entry_prices, p_sources, p_entry_times, p_tags, p_costs, p_entry_cost_prices)
        with ordinality as e(kind, request_id, part, class, scopes, amount, reserved, usage_json, model, channel,
          price_version, source, ts_ms, tags, cost, cost_price, place);
    update sluice.journal_chain h set seq = p_seq, hash = decode(p_hashes[entries + 1], 'hex')
      where h.node = p_node and h.epoch = p_epoch;
    update sluice.balance b set posted = b.posted + d.posted, pending = b.pending - d.freed
      from unnest(p_cells, p_posted, p_freed) as d(id, posted, freed)
      where b.id = d.id and (d.posted <> 0 or d.freed <> 0);
  end if;

  -- Read behind the locks: only now nobody else changes them.
  select coalesce(array_agg(b.posted order by b.id), '{}'), coalesce(array_agg(b.posted + b.pending order by b.id), '{}'),
      array_agg(b."limit" order by b.id), array_agg(b.sliced order by b.id), array_agg(b.edge order by b.id)
    into posted, used, bounds, sliced, until from sluice.balance b where b.id = any (p_cells);
  if cardinality(used) <> cells then raise exception 'a balance is missing'; end if;
  for i in 1 .. cardinality(p_sum_scopes) loop
    select coalesce(sum(b.posted), 0), coalesce(sum(b.posted + b.pending), 0) into sum_posted, sum_used
      from sluice.cell s join sluice.balance b on b.id = s.id
      where s.scope = p_sum_scopes[i] and s.hour between p_sum_from[i] and p_sum_to[i];
    posted := posted || sum_posted;
    used := used || sum_used;
  end loop;

  own := array_fill(0::bigint, array[cells]);
  gone := array_fill(null::bigint, array[cells]);
  spoken := gone;
  spoken_hour := array_fill(0, array[cells]);
  if cardinality(p_unwritten) > 0 then
    update sluice.slice s set used = d.used, used_hour = coalesce(p_sum_to[d.sum - cells], 0)
      from unnest(p_slices, p_unwritten, p_slice_used) as d(at, used, sum)
      where s.node = p_node and s.cell = p_cells[d.at] and d.used is not null;
  end if;
  for i in 1 .. cardinality(p_slices) loop
    sliced[p_slices[i]] := sliced[p_slices[i]] - p_backs[i];
    own[p_slices[i]] := own[p_slices[i]] - p_backs[i];
    if p_backs[i] > 0 and until[p_slices[i]] > time_now then
      returned := concat_ws(',', returned, p_cells[p_slices[i]]);
    end if;
  end loop;
  if returned is not null then perform pg_notify('sluice_return', returned); end if;

  verdicts := '{}';
  held := array_fill(0::bigint, array[cardinality(used)]);
  if cardinality(p_requests) > 0 then
    -- No join: with statistics of a table that was nearly empty, one reads all of it for each.
    select array_agg(n.place) filter (where exists (
        select from sluice.hold h where h.request_id = n.request_id and h.part = n.part))
      into taken from unnest(p_requests, p_parts) with ordinality as n(request_id, part, place);
    -- Another node may have had the end of such a hold, and brought that back.
    if p_restored > 0 then
      taken := taken || (select array_agg(n.place)
        from unnest(p_requests, p_parts, p_times) with ordinality as n(request_id, part, "time", place)
        where n.place > cardinality(p_requests) - p_restored and n."time" is not null and exists (
          select from sluice.journal j where j.day = date '1970-01-01' + (n."time" / 86400000)::int
            and j.request_id = n.request_id and j.part = n.part and j.class = 'terminal'));
    end if;
    for run in 1 .. cardinality(p_runs_to) loop
      kind := p_kinds[first];
      first_count := coalesce(p_counts_to[kind - 1], 0) + 1;
      first_cap := coalesce(p_caps_to[kind - 1], 0) + 1;
      whole := taken is null;
      while first <= p_runs_to[run] loop
        last := first;
        amount := p_amounts[first];
        verdict := 0;
        if whole then
          last := p_runs_to[run];
          amount := p_run_amounts[run];
        elsif first = any (taken) then
          verdict := -2;
        end if;
        lacking := null;
        if amount > 0 then
          for k in first_cap .. p_caps_to[kind] loop
            exit when verdict <> 0;
            continue when p_cap_own[k];
            if used[p_caps[k]] > p_cap_limits[k] - amount then
              verdict := k - first_cap + 1;
            elsif lacking is null and sliced[p_cap_cells[k]] > p_cap_limits[k] - amount - used[p_caps[k]] then
              lacking := k;
              continue when whole;
              cell_at := p_cap_cells[k];
              near := true;
              -- What may be of a later hour than the request does not count against it.
              hour := coalesce(p_sum_to[p_caps[k] - cells], 0);
              if spoken[cell_at] is null or spoken_hour[cell_at] <> hour then
                spoken_hour[cell_at] := hour;
                spoken[cell_at] := coalesce((
                  select sum(s.used) from sluice.slice s join sluice.node n on n.name = s.node
                    where s.cell = p_cells[cell_at] and s.used_hour <= hour and n.expires > time_now), 0);
              end if;
              if spoken[cell_at] > p_cap_limits[k] - amount - used[p_caps[k]] then verdict := k - first_cap + 1; end if;
            end if;
          end loop;
        end if;
        if verdict = 0 then
          for j in first_count .. p_counts_to[kind] loop
            if used[p_counts[j]] > most - amount then verdict := -1; end if;
          end loop;
        end if;
        if whole and (verdict <> 0 or lacking is not null) then
          whole := false;
          continue;
        end if;
        if verdict = 0 and lacking is not null then
          cell_at := p_cap_cells[lacking];
          if gone[cell_at] is null then
            gone[cell_at] := coalesce((
              select sum(s.amount) from sluice.slice s join sluice.node n on n.name = s.node
                where s.cell = p_cells[cell_at] and n.expires <= time_now), 0);
          end if;
          if gone[cell_at] > p_cap_limits[lacking] - amount - used[p_caps[lacking]] then
            verdict := -4;
          else
            verdict := -3;
            if not cell_at = any (recalled) then recalled := recalled || cell_at; end if;
          end if;
        end if;
        if p_have_ended[first] and verdict <> 0 then
          raise exception 'an end whose hold is refused' using errcode = 'SL005';
        end if;
        if verdict = 0 then
          if not p_have_ended[first] then
            for j in first_count .. p_counts_to[kind] loop
              used[p_counts[j]] := used[p_counts[j]] + amount;
              held[p_counts[j]] := held[p_counts[j]] + amount;
            end loop;
          end if;
          for k in first_cap .. p_caps_to[kind] loop
            if p_cap_own[k] then
              sliced[p_cap_cells[k]] := sliced[p_cap_cells[k]] - amount;
              own[p_cap_cells[k]] := own[p_cap_cells[k]] - amount;
            end if;
            -- A node that does not know yet that a budget was lowered admits by what it was.
            if p_caps[k] <= cells and bounds[p_caps[k]] < p_cap_limits[k] and amount > 0 then
              bounds[p_caps[k]] := p_cap_limits[k];
              raised := true;
            end if;
          end loop;
        end if;
        verdicts := verdicts || array_fill(verdict, array[last - first + 1]);
        first := last + 1;
      end loop;
    end loop;
    if false = any (p_have_ended) then
      insert into sluice.hold
        select h.request_id, h.part, p_node, p_kind_cells[h.kind]::bigint[], p_kind_scopes[h.kind], p_kind_tags[h.kind],
          h.amount, h.model, h.price_version, h.cost_price, h.input_units, h.max_out, h.pieces, h.channel, h.delivered,
          h.endpoint, h.client_protocol, h.streamed, h.time, null
        from unnest(p_requests, p_parts, p_amounts, p_have_ended, p_kinds, p_models, p_price_versions, p_cost_prices,
          p_input_units, p_max_outs, p_pieces, p_channels, p_delivered, p_endpoints, p_client_protocols, p_streamed, p_times)
          with ordinality as h(request_id, part, amount, ended, kind, model, price_version, cost_price,
            input_units, max_out, pieces, channel, delivered, endpoint, client_protocol, streamed, "time", place)
        where verdicts[h.place] = 0 and not h.ended;
    end if;
  end if;

  if cardinality(recalled) > 0 then
    select coalesce(array_agg(p_cells[r.at]), '{}') into edges from unnest(recalled) as r(at)
      where until[r.at] is null or until[r.at] < time_now + interval '1.8 s';
    if cardinality(edges) > 0 then
      update sluice.balance b set edge = time_now + interval '2 s' where b.id = any (edges);
      -- Only here: it makes all commits of the database wait for each other.
      perform pg_notify('sluice_recall', array_to_string(edges, ','));
    end if;
    foreach cell_at in array recalled loop
      until[cell_at] := time_now + interval '2 s';
    end loop;
  end if;
  grants := '{}';
  for i in 1 .. cardinality(p_slices) loop
    cell_at := p_slices[i];
    if p_wants[i] = 0 or until[cell_at] > time_now or used[p_slice_used[i]] >= p_slice_limits[i] then
      grants := grants || 0::bigint;
      continue;
    end if;
    nodes := coalesce(nodes, (select greatest(count(*), 1) from sluice.node n where n.expires > time_now));
    grants := grants || sluice.slice_1(
      p_slice_limits[i] - used[p_slice_used[i]] - sliced[cell_at], p_wants[i], p_least[i], nodes);
    sliced[cell_at] := sliced[cell_at] + grants[i];
    own[cell_at] := own[cell_at] + grants[i];
  end loop;
  update sluice.balance b set pending = b.pending + d.held, sliced = b.sliced + d.own
    from unnest(p_cells, held[1:cells], own) as d(id, held, own) where b.id = d.id and (d.held <> 0 or d.own <> 0);
  update sluice.slice s set amount = s.amount + d.own
    from unnest(p_cells, own) as d(id, own) where s.node = p_node and s.cell = d.id and d.own <> 0;
  insert into sluice.slice select p_node, d.id, d.own from unnest(p_cells, own) as d(id, own) where d.own > 0
    on conflict do nothing;
  delete from sluice.slice s using unnest(p_cells, own) as d(id, own)
    where s.node = p_node and s.cell = d.id and d.own < 0 and s.amount = 0;
  -- For whoever is refused this is used, too.
  if near then
    for i in 1 .. cells loop
      used[i] := used[i] + coalesce(spoken[i], 0);
    end loop;
  end if;
  if p_all_edges then
    select coalesce(array_agg(b.id), '{}') into edges from sluice.slice s join sluice.balance b on b.id = s.cell
      where s.node = p_node and b.edge > time_now;
  else
    select coalesce(array_agg(p_cells[i]), '{}') into edges from generate_series(1, cells) as i where until[i] > time_now;
  end if;
  if raised then
    update sluice.balance b set "limit" = d."limit" from unnest(p_cells, bounds) as d(id, "limit")
      where b.id = d.id and b."limit" < d."limit";
  end if;
  if cardinality(p_limited) > 0 then
    update sluice.balance b set "limit" = d."limit" from (
      select distinct on (l.id) l.id, l."limit"
        from unnest(p_limited, p_limits, p_limited_by) with ordinality as l(id, "limit", by, place)
        where l.by = 0 or verdicts[l.by] = 0 and p_amounts[l.by] > 0 order by l.id, l.place desc) d
      where b.id = d.id;
  end if;
  if p_touched is not null then
    update sluice.hold h set channel = t.channel, cost_price = t.cost_price, delivered = t.delivered, model = t.model,
        price_version = t.price_version
      from json_to_recordset(p_touched) as t(
        request_id text, part text, channel text, cost_price text, delivered bigint, model text, price_version text)
      where h.request_id = t.request_id and h.part = t.part and h.node = p_node;
    get diagnostics found_touched = row_count;
    if found_touched <> json_array_length(p_touched) then raise exception 'lost' using errcode = 'SL002'; end if;
  end if;
  if p_leased is not null then
    update sluice.hold h set lease_until = l.until
      from json_to_recordset(p_leased) as l(request_id text, part text, until bigint)
      where h.request_id = l.request_id and h.part = l.part and h.node = p_node;
    get diagnostics found_touched = row_count;
    if found_touched <> json_array_length(p_leased) then raise exception 'lost' using errcode = 'SL002'; end if;
  end if;
  update sluice.node n set verdicts = money_batch_1.verdicts, posted = money_batch_1.posted, used = money_batch_1.used,
      grants = money_batch_1.grants, edges = money_batch_1.edges
    where n.name = p_node;
  return next;
end $$;

-- Tables that are nearly empty and change all the time have wrong statistics, and plans that scan them degrade.
alter function sluice.money_batch_1 set enable_seqscan = off;
alter function sluice.money_batch_1 set enable_hashjoin = off;
alter function sluice.money_batch_1 set enable_mergejoin = off;
alter function sluice.money_batch_1 set jit = off;
-- A batch that waits for another one for longer than its caller does must not go on by itself.
alter function sluice.money_batch_1 set lock_timeout = '4s';
