-- Which upstream has the thing that a client names by an id.
create table sluice.route (
  tenant text not null,
  project text not null,
  id text not null,
  kind text not null,
  channel text not null,
  account text not null,
  model text not null,
  tokens bigint,
  expires bigint not null,          -- Unix milliseconds
  primary key (tenant, project, id)
);
create index route_expires on sluice.route (expires);
