-- A store of one machine that is carried into this book, or was: `sluice ledger move`. While it is under way nobody joins.
create table sluice.move (
  one boolean primary key default true check (one),
  stamp text not null,           -- of the store as it stood; it has another one after every start
  identity text not null,        -- what all copies of the store share, in hexadecimal
  node text not null,            -- the node that its journal and its open holds are of here
  progress text not null,        -- JSON: what was carried, written with the rows themselves
  began timestamptz not null default clock_timestamp(),
  done timestamptz               -- when all was carried and verified; null until then
);

-- Whether a chain goes on from that of the epoch before, as the starts of a store of one machine do: then its rows count
-- on, and the hash before the first row of all is zeros.
alter table sluice.journal_chain add column continues boolean not null default false;

-- Rows of the journal of such a store that a book of many nodes had before, and the end of the chain that each was in.
create table sluice.journal_origin (
  node text not null,
  epoch int not null,
  first bigint not null,
  last bigint not null,
  hash bytea not null,
  primary key (node, epoch)
);

create function sluice.nobody_joins_a_move() returns trigger language plpgsql as $$
begin
  if exists (select from sluice.move m where m.done is null and m.node <> new.name) then
    raise exception 'a store is being moved into this database: "sluice ledger move" goes on where it stopped'
      using errcode = 'SL010';
  end if;
  return new;
end $$;
create trigger nobody_joins_a_move before insert on sluice.node
  for each row execute function sluice.nobody_joins_a_move();
