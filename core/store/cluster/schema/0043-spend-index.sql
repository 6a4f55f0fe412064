-- The days and months of a spender are found without reading those of all. Only who adds the journal up writes these
-- tables, so nobody else waits while the indexes are made.
create index spend_day_spender on sluice.spend_day (spender, day);
create index spend_month_spender on sluice.spend_month (spender, month);
