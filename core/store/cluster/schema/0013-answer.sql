-- Answers that are given again to whoever repeats a request, and what is being answered at present.
create table sluice.answer (
  id bytea primary key,
  tenant text not null,
  time bigint not null,             -- Unix milliseconds
  asked bytea not null,
  status int not null,
  type text not null,
  headers text not null,            -- a JSON object
  streamed boolean not null,
  body bytea,                       -- null: it was too large to keep
  bytes bigint generated always as (coalesce(octet_length(body), 0) + 300) stored
);
alter table sluice.answer alter column body set storage external;
create index answer_time on sluice.answer (time);
create index answer_room on sluice.answer (tenant, time) include (bytes);

create table sluice.claim (
  name text primary key,
  what bytea not null,              -- a digest
  holder uuid not null,
  until timestamptz not null        -- by the clock of the database: who does not renew it by then has lost it
);
create index claim_until on sluice.claim (until);
