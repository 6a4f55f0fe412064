-- The gateways that share the book, as each tells it of itself every few seconds.
create table sluice.gateway (
  node text primary key,
  version text not null,
  config text not null,             -- the hash of the configuration in use; empty before it is known
  started timestamptz not null default clock_timestamp(),
  seen timestamptz not null default clock_timestamp()
);
