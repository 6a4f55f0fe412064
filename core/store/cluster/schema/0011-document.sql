-- What operators change while gateways run, and the audit log. Every change locks the one row of `book` until it is
-- committed, so versions are committed in their order: who has read all up to one has missed none.

-- Changes that were made, by the id that their gateway gave them: one whose answer was lost is asked for again.
create table sluice.document_change (
  id uuid primary key,
  made timestamptz not null default clock_timestamp(),
  -- Who has read a stamp that is not here has read what is lost, as a standby took over without it; or long ago.
  stamp uuid not null unique default gen_random_uuid()
);
create index document_change_made on sluice.document_change (made);

create table sluice.book (
  one boolean primary key default true check (one),
  version bigint not null default 0,
  stamp uuid not null default gen_random_uuid(), -- of the last change
  -- Deletions up to this version are forgotten: who has read less must read all.
  floor bigint not null default 0,
  audits bigint not null default 0,
  audit_hash text not null default ''
);
insert into sluice.book default values;

create table sluice.document (
  kind text not null,
  id text not null,
  value text,                       -- JSON; null: it was deleted
  version bigint not null unique,
  place bigint not null,            -- its version when it was first put: documents are listed in this order
  changed timestamptz not null default clock_timestamp(),
  primary key (kind, id)
);
create index document_gone on sluice.document (changed) where value is null;

-- Entries are only added. What they are searched by stands beside the JSON, which may have what no text here can have.
create table sluice.audit (
  seq bigint primary key,
  time bigint not null,             -- Unix milliseconds, by the clock of the database
  json text not null,
  hash text not null,               -- SHA-256 in hexadecimal, over `<hash before>:<seq>:<time>:<json>`
  object text,
  actor text,
  tenant text,
  action text,
  object_kind text,
  outcome text
);
create index audit_time on sluice.audit (time);
create index audit_object on sluice.audit (object, seq);
create index audit_actor on sluice.audit (actor, seq);
create index audit_tenant on sluice.audit (tenant, seq);
create index audit_action on sluice.audit (action, seq);
create index audit_object_kind on sluice.audit (object_kind, seq);
create index audit_outcome on sluice.audit (outcome, seq);

create function sluice.audit_is_only_appended_to() returns trigger language plpgsql as $$
begin
  raise exception 'the audit log is only appended to';
end $$;
create trigger audit_is_only_appended_to before update or delete or truncate on sluice.audit
  for each statement execute function sluice.audit_is_only_appended_to();

-- Makes changes together, once for each id, with an entry of the audit log. `p_changes`: kind, id, value and base, which
-- is the version that the gateway has of the document, 0 for none. A document that has another version by now is a
-- conflict (SQLSTATE SL001), but with `p_notes` it is left as it is. Returns all documents above `p_seen`, with the stamp
-- of the last change. Where `p_stamp`, which was read with `p_seen`, is not known, each change is a conflict: it may have
-- been decided on what is lost, and the base be the version of something else by now.
create function sluice.change_documents(
  p_id uuid, p_changes json, p_entry json, p_notes boolean, p_seen bigint, p_stamp uuid
)
returns table (kind text, id text, value text, version bigint, place bigint, stamp uuid) language plpgsql
set enable_seqscan = off set jit = off as $$
declare
  head sluice.book;
  began bigint;
  lost boolean;
  made uuid;
  one record;
  at bigint;
begin
  select * into strict head from sluice.book for no key update;
  began := head.version;
  -- The first stamp is of no change.
  insert into sluice.document_change (id, stamp) values (gen_random_uuid(), head.stamp) on conflict do nothing;
  lost := not exists (select from sluice.document_change c where c.stamp = p_stamp);
  insert into sluice.document_change as c (id) values (p_id) on conflict do nothing returning c.stamp into made;
  if found then
    head.stamp := made;
    for one in
      select c.kind, c.id, c.value, c.base, coalesce(d.version, 0) as stored, d.value is not null as there
      from rows from (json_to_recordset(p_changes) as (kind text, id text, value text, base bigint))
        with ordinality c(kind, id, value, base, number)
      left join sluice.document d on d.kind = c.kind and d.id = c.id
      order by c.number
    loop
      if lost then raise exception 'this was decided on what is lost' using errcode = 'SL001'; end if;
      if one.base <> (case when one.there then one.stored else 0 end) then
        if p_notes then continue; end if;
        raise exception 'changed meanwhile: % %', one.kind, one.id using errcode = 'SL001';
      end if;
      if one.value is null and not one.there then continue; end if;
      head.version := head.version + 1;
      insert into sluice.document as d (kind, id, value, version, place)
      values (one.kind, one.id, one.value, head.version, head.version)
      on conflict on constraint document_pkey do update set
        value = excluded.value,
        version = excluded.version,
        place = case when d.value is null then excluded.place else d.place end,
        changed = excluded.changed;
    end loop;
    if p_entry is not null then
      at := floor(extract(epoch from clock_timestamp()) * 1000);
      head.audits := head.audits + 1;
      head.audit_hash := encode(sha256(convert_to(
        concat(head.audit_hash, ':', head.audits, ':', at, ':', p_entry ->> 'json'), 'UTF8')), 'hex');
      insert into sluice.audit
      values (head.audits, at, p_entry ->> 'json', head.audit_hash, p_entry ->> 'object', p_entry ->> 'actor',
        p_entry ->> 'tenant', p_entry ->> 'action', p_entry ->> 'object_kind', p_entry ->> 'outcome');
    end if;
    update sluice.book set version = head.version, stamp = head.stamp, audits = head.audits, audit_hash = head.audit_hash;
    if head.version > began then perform pg_notify('sluice_documents', head.version::text); end if;
  end if;
  -- Who has read less than what is forgotten, or what is lost, has to read all.
  if lost or p_seen < head.floor then return; end if;
  return query
    select d.kind, d.id, d.value, d.version, d.place, head.stamp
    from sluice.document d where d.version > p_seen order by d.version;
end $$;

-- Forgets deletions and changes that are older than an hour. The last of these changes stays: gateways may not have read
-- yet what came after it.
create function sluice.sweep_documents() returns void language plpgsql as $$
declare
  gone bigint;
begin
  perform 1 from sluice.book for no key update;
  with old as (
    delete from sluice.document d where d.value is null and d.changed < clock_timestamp() - interval '1 hour'
    returning d.version
  )
  select max(old.version) into gone from old;
  update sluice.book b set floor = greatest(b.floor, gone) where gone is not null;
  delete from sluice.document_change where made <
    (select max(c.made) from sluice.document_change c where c.made < clock_timestamp() - interval '1 hour');
end $$;
