-- The nodes that share the book, as each tells it of itself every few seconds: gateways, and the workers of those that
-- have some.
create table sluice.gateway (
  node text primary key,
  version text not null,
  config text not null,             -- the hash of the configuration in use; empty before it is known
  worker_of text,                   -- of a worker: the node that is its gateway
  started timestamptz not null default clock_timestamp(),
  seen timestamptz not null default clock_timestamp()
);
