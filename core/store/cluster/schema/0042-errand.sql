-- What a gateway asks the owner of open work to do, on behalf of a client that came to another one.
create table sluice.errand (
  id uuid primary key,
  tenant text not null,
  project text not null,
  work text not null,
  what text not null,               -- refresh | cancel | stop
  answer text,                      -- the work as its owner has it then, as JSON; null: not done yet
  asked timestamptz not null default clock_timestamp()
) with (fillfactor = 50);

create function sluice.ask_errand(p_id uuid, p_tenant text, p_project text, p_work text, p_what text) returns void
  language sql as $$
  insert into sluice.errand (id, tenant, project, work, what) values (p_id, p_tenant, p_project, p_work, p_what)
    on conflict do nothing;
  select pg_notify('sluice_errand', p_id::text);
$$;

create function sluice.answer_errand(p_id uuid, p_answer text) returns void language sql as $$
  update sluice.errand set answer = p_answer where id = p_id;
  select pg_notify('sluice_errand', p_id::text);
$$;
