-- Writes records of the request log with the sums that they change, in one call. All of it, or nothing where one of the
-- records is there already: whoever calls has to look at that one first.
create function sluice.log_requests_1(p_lines json, p_sums json) returns void language plpgsql as $$
declare
  added int;
begin
  insert into sluice.request (time, request_id, written, tenant, key, model, project, member, endpoint, channels, code,
      outcome, tags, status, cost, duration, json)
    select time, request_id, floor(extract(epoch from clock_timestamp()) * 1000), tenant, key, model, project, member,
      endpoint, channels, code, outcome, tags, status, cost, duration, json
    from json_to_recordset(p_lines) r(time bigint, request_id text, tenant text, key text, model text, project text,
      member text, endpoint text, channels text[], code text, outcome text, tags text[], status int, cost bigint,
      duration double precision, json text)
    on conflict do nothing;
  get diagnostics added = row_count;
  if added <> json_array_length(p_lines) then raise exception 'some are there' using errcode = 'SL004'; end if;
  insert into sluice.traffic (span, scope, time, model, channel, series, requests, codes, input, output, cost, first)
    select * from json_to_recordset(p_sums) r(span text, scope text, time bigint, model text, channel text, series uuid,
      requests bigint, codes text, input bigint, output bigint, cost numeric, first text)
    on conflict (span, scope, time, model, channel, series) do update set requests = excluded.requests,
      codes = excluded.codes, input = excluded.input, output = excluded.output, cost = excluded.cost,
      first = excluded.first;
end $$;
