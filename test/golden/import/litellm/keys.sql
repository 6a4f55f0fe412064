--
-- PostgreSQL database dump
--
CREATE TABLE public."LiteLLM_TeamTable" (
    team_id text NOT NULL,
    team_alias text
);

COPY public."LiteLLM_TeamTable" (team_id, team_alias, models, max_budget, spend, budget_duration, tpm_limit, rpm_limit, max_parallel_requests, blocked) FROM stdin;
t-1	Search & Ads	{chat,"gpt-4"}	100	25.5	\N	\N	600	\N	f
\.


COPY public."LiteLLM_VerificationToken" (token, key_name, key_alias, spend, expires, models, aliases, user_id, team_id, max_parallel_requests, blocked, tpm_limit, rpm_limit, max_budget, budget_duration) FROM stdin;
@HASH@	sk-...abcd	search	0.5	2099-01-01 00:00:00	{}	{}	u\\1	t-1	4	\N	100000	60	5	24h
bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb	sk-...bbbb	search	0	\N	{all-team-models}	{"a": "chat"}	\N	\N	\N	t	\N	\N	\N	\N
sk-clear	\N	\N	0	\N	{}	{}	\N	\N	\N	\N	\N	\N	\N	\N
\.

