-- Anchors of the journal: every minute some node writes where all chains end that have grown, chained to the anchor before.
create table sluice.anchor (
  number bigint primary key,     -- counts from 1, without gaps
  prev_hash bytea not null,
  hash bytea not null,           -- of prev_hash in hexadecimal, and the heads
  written timestamptz not null default clock_timestamp()
);
create table sluice.anchor_head (
  node text not null,
  epoch int not null,
  anchor bigint not null,
  seq bigint not null,
  hash bytea not null,           -- of the row of the journal that was the last one of the chain
  primary key (node, epoch, anchor)
);
create index anchor_head_anchor on sluice.anchor_head (anchor);
create trigger anchor_is_not_changed before update or delete on sluice.anchor
  for each row execute function sluice.journal_refuses();
create trigger anchor_head_is_not_changed before update or delete on sluice.anchor_head
  for each row execute function sluice.journal_refuses();

-- Writes an anchor when the last one is older than this, and some chain has grown. Returns its number, or null.
create function sluice.money_anchor_1(p_every interval) returns bigint language plpgsql as $$
declare
  before sluice.anchor;
  mine bigint;
  heads text;
begin
  if not pg_try_advisory_xact_lock(7583102950) then return null; end if;
  select * into before from sluice.anchor order by number desc limit 1;
  if before.written > clock_timestamp() - p_every then return null; end if;
  mine := coalesce(before.number, 0) + 1;
  with grown as (
    insert into sluice.anchor_head (node, epoch, anchor, seq, hash)
      select c.node, c.epoch, mine, c.seq, c.hash from sluice.journal_chain c
        left join lateral (select h.seq from sluice.anchor_head h where h.node = c.node and h.epoch = c.epoch
          order by h.anchor desc limit 1) known on true
        where c.seq > coalesce(known.seq, 0)
      returning node, epoch, seq, hash)
  select string_agg(format(E'%s:%s %s %s %s\n', octet_length(node), node, epoch, seq, encode(hash, 'hex')), ''
      order by node collate "C", epoch) into heads from grown;
  if heads is null then return null; end if;
  insert into sluice.anchor (number, prev_hash, hash) values (mine, coalesce(before.hash, ''),
    sha256(convert_to(encode(coalesce(before.hash, ''), 'hex') || E'\n' || heads, 'UTF8')));
  return mine;
end $$;

-- Removes balances of hours that no rolling budget looks at any more: of the scopes behind p_after those that are older
-- than the newest p_kept ones, p_most of them at most. Hours are counted, and not told by their dates, so that no clock that
-- is wrong can have one removed that a budget still needs. Returns the last scope that was looked at, if any.
create function sluice.money_sweep_1(p_after text, p_kept int, p_most int)
  returns table (last text, removed int) language plpgsql as $$
declare
  oldest int;
  fewer int;
begin
  removed := 0;
  for last in select distinct c.scope from sluice.cell c where c.hour is not null and c.scope > p_after order by c.scope limit 16 loop
    select c.hour into oldest from sluice.cell c where c.scope = last and c.hour is not null
      order by c.hour desc offset p_kept - 1 limit 1;
    continue when oldest is null;
    -- An hour with holds stays: their ends are taken from what its row has.
    with past as (
      select b.id from sluice.cell c join sluice.balance b on b.id = c.id
        where c.scope = last and c.hour < oldest and b.pending = 0 order by b.id limit p_most - removed
        for update of b skip locked
    ), gone as (
      delete from sluice.balance b using past p where b.id = p.id returning b.id
    ), names as (
      delete from sluice.cell c using gone g where c.id = g.id returning 1
    ) select count(*) into fewer from names;
    removed := removed + fewer;
    exit when removed >= p_most;
  end loop;
  if last is not null then return next; end if;
end $$;
