-- Credentials that keys give to pages, by their digests, and what was spent with them. Amounts are nano-dollars.
create table sluice.client_secret (
  sha256 bytea primary key,
  issuer bytea not null,            -- the digest of the key that made it
  model text not null,
  settings text,                    -- of a new session: JSON
  expires timestamptz not null,     -- by the clock of the database
  budget numeric,                   -- of all its sessions together; null: the budgets of its key alone limit them
  posted numeric not null default 0
);
create index client_secret_issuer on sluice.client_secret (issuer, expires);
create index client_secret_expires on sluice.client_secret (expires);

-- What turns hold of a budget until they end. What is never ended stays until the secret is forgotten.
create table sluice.client_secret_hold (
  sha256 bytea not null references sluice.client_secret on delete cascade,
  name text not null,
  amount numeric not null,
  primary key (sha256, name)
);

-- Keeps a secret, or replaces the one with its digest, unless its key has too many that have not expired.
create function sluice.keep_client_secret(p_sha256 bytea, p_issuer bytea, p_model text, p_settings text,
  p_lifetime interval, p_budget numeric, p_most int) returns boolean language plpgsql as $$
begin
  -- Those of one key one after another.
  perform pg_advisory_xact_lock(hashtextextended(encode(p_issuer, 'hex'), 7583102951));
  if (select count(*) from (
    select from sluice.client_secret c
    where c.issuer = p_issuer and c.expires > clock_timestamp() and c.sha256 <> p_sha256 limit p_most
  ) others) >= p_most then return false; end if;
  insert into sluice.client_secret (sha256, issuer, model, settings, expires, budget)
  values (p_sha256, p_issuer, p_model, p_settings, clock_timestamp() + p_lifetime, p_budget)
  on conflict (sha256) do update set issuer = excluded.issuer, model = excluded.model, settings = excluded.settings,
    expires = excluded.expires, budget = excluded.budget;
  return true;
end $$;

-- Holds an amount under a name, once; nothing is always held. Returns whether it is held, and what was spent before. No
-- row: the secret is forgotten.
create function sluice.hold_client_secret(p_sha256 bytea, p_name text, p_amount numeric)
returns table (held boolean, posted numeric, pending numeric) language plpgsql as $$
declare
  secret sluice.client_secret;
begin
  select * into secret from sluice.client_secret c where c.sha256 = p_sha256 and c.budget is not null for no key update;
  if not found then return; end if;
  select coalesce(sum(h.amount), 0) into pending from sluice.client_secret_hold h where h.sha256 = p_sha256;
  posted := secret.posted;
  held := exists (select from sluice.client_secret_hold h where h.sha256 = p_sha256 and h.name = p_name);
  if not held and (p_amount = 0 or posted + pending + p_amount <= secret.budget) then
    insert into sluice.client_secret_hold values (p_sha256, p_name, p_amount);
    held := true;
  end if;
  return next;
end $$;
