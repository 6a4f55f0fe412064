// The keys and teams of LiteLLM's PostgreSQL database, from a dump: https://docs.litellm.ai/docs/proxy/virtual_keys
import { budgetOf, longer, nanoOf } from './budget.ts'
import type { Draft, Entry } from './draft.ts'
import type { Fates } from './fates.ts'
import { limitsOf } from './litellm-config.ts'
import { arrayOf, readDump } from './sql-dump.ts'
import type { Row } from './sql-dump.ts'

const teams = 'LiteLLM_TeamTable'
const tokens = 'LiteLLM_VerificationToken'

/** Names that stand for all models that the levels above allow. */
const allModels: ReadonlySet<string> = new Set(['all-proxy-models', 'all-team-models', '*'])

/** Groups of routes that call models. */
const calling: ReadonlySet<string> = new Set(['llm_api_routes', 'openai_routes', '*'])

/**
 * Reads a dump into the draft. Teams become projects, and keys have the hashes that they have there.
 * @throws Error when the dump has no such table
 */
export function importKeys(text: string, draft: Draft, fates: Fates): void {
  const rows = readDump(text, [teams, tokens])
  const found = rows.get(tokens)!
  if (found.length === 0) throw new Error(`it has no rows of the table ${tokens}: dump it with pg_dump`)
  const projects = new Map(
    rows.get(teams)!.map((row) => {
      const name = row['team_alias'] ?? row['team_id'] ?? 'team'
      return [row['team_id'], draft.project(name, rightsOf(row, fates, name))]
    })
  )
  for (const row of found) importKey(row, projects, draft, fates)
}

function importKey(row: Row, projects: ReadonlyMap<string | undefined, string>, draft: Draft, fates: Fates): void {
  const hash = row['token'] ?? ''
  const name = row['key_alias'] ?? row['key_name'] ?? `key-${hash.slice(0, 8)}`
  if (!/^[0-9a-f]{64}$/.test(hash)) return fates.dropped('key', 'it is kept otherwise than as a SHA-256', name)
  const project = projects.get(row['team_id'])
  if (row['team_id'] !== undefined && project === undefined)
    return fates.dropped('key', 'its team is not in the dump: dump both tables', name)
  const user = row['user_id']
  const expires = row['expires']
  for (const [column, empty] of [
    ['aliases', '{}'],
    ['config', '{}'],
    ['permissions', '{}'],
    ['model_max_budget', '{}'],
    ['budget_id', undefined],
    ['organization_id', undefined]
  ] as const)
    if (row[column] !== undefined && row[column] !== empty) fates.dropped(column, 'it has no counterpart', name)
  const routes = arrayOf(row['allowed_routes'])
  const calls = routes.length === 0 || routes.some((route) => calling.has(route))
  if (!calls) fates.approximated('allowed_routes', 'the key may not call models there, so it is disabled', name)
  draft.key(name, {
    key_sha256: hash,
    ...(project !== undefined && { project }),
    ...rightsOf(row, fates, name),
    ...(!calls && { enabled: false }),
    ...(expires !== undefined && { expires: dateOf(expires) }),
    ...(user !== undefined &&
      /^[^\p{C}\p{Zl}\p{Zp}]{1,64}$/u.test(user) && { tags: { user: user.replaceAll('$', '$$$$') } })
  })
}

/** What a key or a team may do: models, limits and a budget. */
function rightsOf(row: Row, fates: Fates, name: string): Entry {
  const models = arrayOf(row['models'])
  const limits = limitsOf({ ...row }, 'rpm_limit', 'tpm_limit', 'max_parallel_requests')
  const most = row['max_budget']
  const lasting = row['budget_duration'] === undefined
  // One that is for good goes on from what was spent; one that begins anew does so with the import.
  const whole = nanoOf(most)
  const used = lasting ? (nanoOf(row['spend']) ?? 0n) : 0n
  const left = whole === undefined ? undefined : whole > used ? whole - used : 0n
  if (most !== undefined && left === undefined) throw new Error(`the max_budget of ${name} is no amount of dollars`)
  const { budget, exact = true } = budgetOf(left, row['budget_duration']) ?? {}
  if (!exact) fates.approximated('max_budget', longer, name)
  if (budget && !lasting) fates.approximated('max_budget', 'what was spent in this window counts from zero', name)
  return {
    ...(/^t/i.test(row['blocked'] ?? '') && { enabled: false }),
    ...(models.length > 0 && !models.some((model) => allModels.has(model)) && { models }),
    ...(limits && { limits }),
    ...(budget && { budget })
  }
}

function dateOf(text: string): string {
  return `${text.slice(0, 19).replace(' ', 'T')}Z`
}
