-- What the journal adds up to, by day and by month of the reservation. Rows of the journal are added once: `spend_seen`
-- says how far each chain was, and changes together with the sums.
create table sluice.spend_seen (
  node text not null,
  epoch int not null,
  seq bigint not null,
  primary key (node, epoch)
) with (fillfactor = 50);

-- Whom charges belong to. An empty text stands for none.
create table sluice.spender (
  id text primary key,              -- a digest of the rest
  tenant text collate "C" not null,
  project text collate "C" not null,
  member text collate "C" not null,
  key text collate "C" not null,
  tags text collate "C" not null    -- a JSON object, or empty
);

create table sluice.spend_day (
  day int not null,                 -- since 1970
  spender text not null,
  model text collate "C" not null,
  channel text collate "C" not null,
  price text collate "C" not null,
  cost_price text collate "C" not null,
  requests bigint not null,
  charge bigint not null,
  failed bigint not null,
  cost bigint not null,
  input bigint not null,
  cached_input bigint not null,
  cache_write bigint not null,
  output bigint not null,
  reasoning bigint not null,
  units jsonb,                      -- of other classes; null for none
  primary key (day, spender, model, channel, price, cost_price)
) with (fillfactor = 70);

create table sluice.spend_month (
  month int not null,               -- since the year 0
  spender text not null,
  model text collate "C" not null,
  channel text collate "C" not null,
  price text collate "C" not null,
  cost_price text collate "C" not null,
  requests bigint not null,
  charge bigint not null,
  failed bigint not null,
  cost bigint not null,
  input bigint not null,
  cached_input bigint not null,
  cache_write bigint not null,
  output bigint not null,
  reasoning bigint not null,
  units jsonb,                      -- of other classes; null for none
  primary key (month, spender, model, channel, price, cost_price)
) with (fillfactor = 70);

-- Units of other classes, added up.
create function sluice.spend_units(one jsonb, other jsonb) returns jsonb language sql immutable as $$
  select case when one is null then other when other is null then one else (
    select jsonb_object_agg(key, least(number, 9007199254740991)) from (
      select key, sum(value::numeric) as number from (
        select * from jsonb_each_text(one) union all select * from jsonb_each_text(other)
      ) both_of group by key
    ) added
  ) end
$$;
