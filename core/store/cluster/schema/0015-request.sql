-- The request log, a partition for each day of arrival (UTC), which is dropped as a whole. There is none for whatever
-- has no other: what is too old is not logged any more.
create table sluice.request (
  time bigint not null,             -- when it arrived, in Unix milliseconds
  request_id text not null,
  written bigint not null,          -- likewise, by the clock of the database
  tenant text not null,             -- an empty text stands for none, here and below
  key text not null,
  model text not null,
  project text not null,
  member text not null,
  endpoint text not null,
  channels text[] not null,
  code text not null,
  outcome text not null,
  tags text[] not null,             -- name=value
  status int not null,
  cost bigint not null,             -- nano-dollars
  duration double precision not null,
  json text not null,
  primary key (time, request_id)
) partition by range (time);
create index request_id on sluice.request (request_id);
create index request_tenant on sluice.request (tenant, time);

-- Makes the partition of a day (since 1970). Attaching it stops nobody who reads or writes.
create function sluice.make_request_day(p_day int) returns void language plpgsql as $$
declare
  name text := 'request_' || p_day;
begin
  perform pg_advisory_xact_lock(7583102947);
  -- Read as a table: what to_regclass remembers may be older than the lock.
  if exists (select from pg_class where relname = name and relnamespace = 'sluice'::regnamespace) then return; end if;
  execute format('create table sluice.%I (like sluice.request including defaults including constraints)', name);
  execute format('alter table sluice.request attach partition sluice.%I for values from (%s) to (%s)',
    name, p_day * 86400000::bigint, (p_day + 1) * 86400000::bigint);
end $$;

-- The days that there are, oldest first, and what each takes.
create function sluice.request_days() returns table (day int, bytes bigint) language sql stable as $$
  select substr(c.relname, 9)::int, pg_total_relation_size(c.oid)
  from pg_inherits i join pg_class c on c.oid = i.inhrelid
  where i.inhparent = 'sluice.request'::regclass order by 1
$$;

-- What requests add up to, by minute and hour of their arrival. Each series has sums of its own, which are added up when
-- they are read: gateways do not wait for each other, and a sum that is written again is the same.
create table sluice.traffic (
  span text not null,               -- minute | hour
  scope text not null,
  time bigint not null,             -- in spans since 1970
  model text not null,
  channel text not null,
  series uuid not null,
  requests bigint not null,
  codes text not null,              -- JSON, or empty
  input bigint not null,
  output bigint not null,
  cost numeric not null,
  first text not null,
  primary key (span, scope, time, model, channel, series)
) with (fillfactor = 70);
create index traffic_time on sluice.traffic (span, time);
