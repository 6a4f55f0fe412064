-- Work that goes on after its request was answered. Open work has an owner, which is one gateway, until its lease ends:
-- then another takes it over and raises the epoch, and what the one before still writes is refused.
create table sluice.work (
  tenant text not null,
  project text not null,
  id text not null,
  kind text not null,
  open boolean not null,
  created bigint not null,          -- Unix milliseconds, as expires
  expires bigint,
  request_id text not null,
  bytes bigint,                     -- of its result, where results are counted
  json text not null,
  owner text not null,              -- who has it, or has written its end
  epoch bigint not null default 1,
  until timestamptz,                -- by the clock of the database; -infinity: it was given up; null: it has ended
  primary key (tenant, project, id)
) with (fillfactor = 80);
create index work_list on sluice.work (tenant, project, kind, created, id);
create index work_open on sluice.work (until) where open;
create index work_request on sluice.work (request_id) where open;  -- for whoever looks whether a hold has work
create index work_expires on sluice.work (expires) where expires is not null;
create index work_oldest on sluice.work (tenant, created) where not open and bytes is not null;

-- Work that was deleted and has had several owners, for a day. One of them may not know that it is not its own any more,
-- and puts back what the database lacks, as a server does that took over without it.
create table sluice.work_gone (
  tenant text not null,
  project text not null,
  id text not null,
  at timestamptz not null default clock_timestamp(),
  primary key (tenant, project, id)
);

-- Results, in pieces.
create table sluice.work_result (
  tenant text not null,
  project text not null,
  id text not null,
  number int not null,
  bytes bytea not null,
  made timestamptz not null default clock_timestamp(),
  primary key (tenant, project, id, number)
);
alter table sluice.work_result alter column bytes set storage external;
create index work_result_made on sluice.work_result (made) where number = 0;

-- What the results of each tenant take, added up with every change of work, in one order of the tenants.
create table sluice.work_room (tenant text primary key, bytes bigint not null) with (fillfactor = 50);

create function sluice.count_work_room() returns trigger language plpgsql as $$
begin
  insert into sluice.work_room as r
  select tenant, sum(bytes) from (
    select tenant, bytes from added union all select tenant, -bytes from gone
  ) moved where bytes is not null group by tenant having sum(bytes) <> 0 order by tenant
  on conflict (tenant) do update set bytes = r.bytes + excluded.bytes;
  return null;
end $$;
create function sluice.count_new_work() returns trigger language plpgsql as $$
begin
  insert into sluice.work_room as r
  select tenant, sum(bytes) from added where bytes is not null group by tenant order by tenant
  on conflict (tenant) do update set bytes = r.bytes + excluded.bytes;
  return null;
end $$;
create function sluice.count_gone_work() returns trigger language plpgsql as $$
begin
  insert into sluice.work_room as r
  select tenant, -sum(bytes) from gone where bytes is not null group by tenant order by tenant
  on conflict (tenant) do update set bytes = r.bytes + excluded.bytes;
  return null;
end $$;
create trigger work_added after insert on sluice.work referencing new table as added
  for each statement execute function sluice.count_new_work();
create trigger work_gone after delete on sluice.work referencing old table as gone
  for each statement execute function sluice.count_gone_work();
create trigger work_changed after update on sluice.work referencing new table as added old table as gone
  for each statement execute function sluice.count_work_room();

-- Saves work of a gateway, a row each. What it knows to be there as its own (`known`) is changed only while it is, in the
-- same epoch: whoever was away for so long that another went on with it writes nothing. It is added again when it is not
-- there and was not deleted. Other work is added, or written over what has ended. Returns the rows that were refused.
create function sluice.put_works(p_owner text, p_works json, p_lease interval)
returns table (tenant text, project text, id text) language plpgsql as $$
#variable_conflict use_column
begin
  return query
  with put as (
    select w.* from json_to_recordset(p_works) w(tenant text, project text, id text, kind text, open boolean,
      created bigint, expires bigint, request_id text, bytes bigint, json text, epoch bigint, known boolean)
    order by tenant, project, id
  ), saved as (
    insert into sluice.work as s
      (tenant, project, id, kind, open, created, expires, request_id, bytes, json, owner, epoch, until)
    select p.tenant, p.project, p.id, p.kind, p.open, p.created, p.expires, p.request_id, p.bytes, p.json,
      p_owner, p.epoch, case when p.open then clock_timestamp() + p_lease end
    from put p
    where not p.known or exists (
      select from sluice.work w where w.tenant = p.tenant and w.project = p.project and w.id = p.id)
      or not exists (
      select from sluice.work_gone g where g.tenant = p.tenant and g.project = p.project and g.id = p.id)
    on conflict (tenant, project, id) do update set kind = excluded.kind, open = excluded.open,
      created = excluded.created, expires = excluded.expires, request_id = excluded.request_id, bytes = excluded.bytes,
      json = excluded.json, owner = excluded.owner, epoch = excluded.epoch, until = excluded.until
    where (s.owner = p_owner and s.epoch = excluded.epoch) or (not s.open and not exists (
      select from put p
      where p.known and p.tenant = excluded.tenant and p.project = excluded.project and p.id = excluded.id))
    returning s.tenant, s.project, s.id
  )
  select p.tenant, p.project, p.id from put p
  where not exists (select from saved s where s.tenant = p.tenant and s.project = p.project and s.id = p.id);
end $$;
