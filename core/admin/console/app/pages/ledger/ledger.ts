// The ledger: verified from here with progress, what came of it, and the balances.
import { useEffect, useState } from 'preact/hooks'
import { get, send } from '../../api.ts'
import { h, html } from '../../html.ts'
import type { VNode } from '../../html.ts'
import { useList, useLoad } from '../../load.ts'
import { useAction } from '../../parts/dialog.ts'
import { Head } from '../../parts/head.ts'
import { Money } from '../../parts/money.ts'
import { counted, duration, perSecond } from '../../parts/number.ts'
import { Failure, Nothing, Problem, When } from '../../parts/states.ts'
import { Meter, Status } from '../../parts/status.ts'
import type { Tone } from '../../parts/status.ts'
import { Table } from '../../parts/table.ts'
import type { Column } from '../../parts/table.ts'
import { Text } from '../../parts/text.ts'
import { Time } from '../../parts/time.ts'
import { may } from '../../session.ts'

const path = '/admin/v1/ledger/verify'

interface Running {
  readonly by: string
  readonly started: string
  readonly table: string
  readonly rows: number | null
  readonly of: number | null
  readonly rows_per_second: number | null
  readonly left_ms: number | null
}

interface Invariant {
  readonly name: string
  readonly text: string
  readonly result: 'holds' | 'broken' | 'tested' | 'unchecked'
  readonly breaches: number
  readonly first: string | null
}

interface Result {
  readonly id: number
  readonly by: string
  readonly started: string
  readonly ended: string
  readonly outcome: 'holds' | 'broken' | 'failed' | 'cancelled'
  readonly why: string | null
  readonly checked: Readonly<Record<string, number>> | null
  readonly invariants: readonly Invariant[] | null
  readonly breaches: readonly { invariant: string; row: string; message: string; drift_nano?: string }[] | null
  readonly broken: number | null
  readonly drift_nano: string | null
}

interface State {
  readonly running: Running | null
  readonly results: readonly Result[]
}

interface Balance {
  readonly scope: string
  readonly window: string
  readonly limit_nano: string | null
  readonly posted_nano: string
  readonly pending_nano: string
  readonly left_nano: string | null
}

/** The page. */
export default function LedgerPage(): VNode {
  const state = useLoad((signal) => get<State>(path, {}, signal), [])
  const running = state.data?.running ?? null
  useEffect(() => {
    if (!running) return
    const timer = setTimeout(state.again, 700)
    return () => clearTimeout(timer)
  }, [state.at, state.error])
  const start = useAction(async () => {
    await send('POST', path)
    state.again()
  })
  const cancel = useAction(async () => {
    await send('DELETE', path)
    state.again()
  })
  const error = start.error ?? cancel.error
  const button = running
    ? html`<button type="button" disabled=${cancel.busy} onClick=${cancel.run}>Cancel</button>`
    : html`<button type="button" class="primary" disabled=${start.busy} onClick=${start.run}>Verify now</button>`
  return html`
    ${h(
      Head,
      { title: 'Ledger', about: 'Every charge, chained by hashes. A verification reads all of it and stops nothing.' },
      may({ needs: 'operate' }) ? button : null
    )}
    ${error ? h(Problem, { error }) : null} ${running ? h(Progress, { running }) : null}
    ${h(When<State>, {
      loaded: state,
      children: ({ results }) => h(Results, { results, running: running !== null })
    })}
    <h2>Balances</h2>
    ${h(Balances, {})}
  `
}

function Progress({ running }: { running: Running }): VNode {
  const { table, rows, of, rows_per_second: pace, left_ms: left } = running
  const share = rows !== null && of !== null && of > 0 ? Math.min(1, rows / of) : undefined
  const words = [
    rows === null ? `Reading ${table}` : `${counted(rows)}${of === null ? '' : ` of ${counted(of)}`} rows of ${table}`,
    pace === null ? '' : perSecond(pace),
    left === null ? '' : `about ${duration(left)} left`
  ].filter((word) => word !== '')
  return html`
    <div class="notice" aria-label="Verification under way" role="group">
      <p>
        <b>The ledger is being verified</b>, begun <span class="nowrap">${h(Time, { at: running.started })}</span> by
        ${h(Text, { text: running.by })}
      </p>
      <p><progress class="wide" aria-label="Verified" value=${share} max="1"></progress></p>
      <p class="quiet number">${words.join(' · ')}</p>
    </div>
  `
}

const tones: Readonly<Record<Result['outcome'], Tone>> = {
  holds: 'good',
  broken: 'bad',
  failed: 'bad',
  cancelled: 'idle'
}
const words: Readonly<Record<Result['outcome'], string>> = {
  holds: 'in order',
  broken: 'not in order',
  failed: 'failed',
  cancelled: 'cancelled'
}

function Results({ results, running }: { results: readonly Result[]; running: boolean }): VNode | null {
  const [chosen, setChosen] = useState<number>()
  const shown = results.find(({ id }) => id === chosen) ?? results[0]
  if (!shown)
    return running
      ? null
      : h(
          Nothing,
          { title: 'The ledger was not verified from here yet' },
          html`<p>A verification takes about a second for 100,000 entries, in a process of low priority.</p>`
        )
  const took = Date.parse(shown.ended) - Date.parse(shown.started)
  return html`
    <h2>Verified</h2>
    ${
      results.length < 2
        ? null
        : html`<p>
            <label
              >Of
              <select
                value=${shown.id}
                onChange=${(event: Event) => setChosen(Number((event.target as HTMLSelectElement).value))}
              >
                ${results.map(
                  ({ id, ended, outcome }) =>
                    html`<option value=${id} selected=${id === shown.id}>
                      ${new Date(ended).toLocaleString()}: ${words[outcome]}
                    </option>`
                )}
              </select></label
            >
          </p>`
    }
    <div class="tiles">
      <div class="tile">
        <span class="quiet">Outcome</span><b>${h(Status, { tone: tones[shown.outcome] }, words[shown.outcome])}</b>
      </div>
      <div class="tile">
        <span class="quiet">Drift of balances</span>
        <b>${shown.drift_nano === null ? '–' : h(Money, { nano: shown.drift_nano })}</b>
      </div>
      <div class="tile">
        <span class="quiet">Rows that are wrong</span><b>${shown.broken === null ? '–' : counted(shown.broken)}</b>
      </div>
      <div class="tile">
        <span class="quiet">Entries read</span>
        <b>${shown.checked?.['journal'] === undefined ? '–' : counted(shown.checked['journal'])}</b>
      </div>
      <div class="tile"><span class="quiet">Took</span><b>${duration(took)}</b></div>
    </div>
    <p class="quiet">Ended ${h(Time, { at: shown.ended })}, begun by ${h(Text, { text: shown.by })}.</p>
    ${shown.outcome === 'failed' ? html`<p class="notice bad">${shown.why}</p>` : null}
    ${shown.outcome === 'cancelled' ? html`<p class="notice">Cancelled by ${shown.why}.</p>` : null}
    ${shown.breaches && shown.breaches.length > 0 ? h(Breaches, { result: shown }) : null}
    ${shown.invariants ? h(Invariants, { invariants: shown.invariants }) : null}
  `
}

function Breaches({ result }: { result: Result }): VNode {
  const { breaches, broken } = result
  return html`
    <div class="notice bad">
      <p>
        <b>${`✕ ${counted(broken ?? 0)} ${broken === 1 ? 'row breaks' : 'rows break'} what must hold.`}</b>
        Copy the store before anything is changed; <code>sluice ledger verify</code> names every row.
      </p>
      <ul>
        ${breaches!.slice(0, 20).map(({ invariant, row, message }) => html`<li><code>${invariant}</code> ${h(Text, { text: `${row}: ${message}`, most: 400 })}</li>`)}
      </ul>
      ${(broken ?? 0) > 20 ? html`<p>and ${counted(broken! - 20)} more: <code>sluice ledger verify --json</code> has all.</p>` : null}
    </div>
  `
}

const invariantColumns: readonly Column<Invariant>[] = [
  { id: 'name', title: 'Name', value: ({ name }) => name },
  {
    id: 'result',
    title: 'Result',
    value: ({ result }) => result,
    cell: ({ result }) =>
      h(
        Status,
        { tone: result === 'holds' ? 'good' : result === 'broken' ? 'bad' : 'idle' },
        result === 'tested' ? 'by tests alone' : result === 'unchecked' ? 'of files alone' : result
      )
  },
  { id: 'breaches', title: 'Rows', align: 'end', value: ({ breaches }) => breaches },
  { id: 'text', title: 'What must hold', value: ({ text }) => text },
  {
    id: 'first',
    title: 'First row',
    value: ({ first }) => first,
    cell: ({ first }) => (first === null ? '' : h(Text, { text: first, most: 60 }))
  }
]

function Invariants({ invariants }: { invariants: readonly Invariant[] }): VNode {
  return html`<details class="checked">
    <summary>What was checked: ${invariants.length} invariants</summary>
    ${h(Table<Invariant>, { name: 'invariants', columns: invariantColumns, rows: invariants, keyOf: ({ name }) => name, empty: '' })}
  </details>`
}

function Balances(): VNode {
  const list = useList<Balance>('/admin/v1/balances')
  return html`
    ${list.error ? h(Failure, { error: list.error, again: list.again }) : null}
    ${h(Table<Balance>, {
      name: 'balances',
      columns: balanceColumns,
      rows: list.rows,
      keyOf: ({ scope, window }) => `${scope} ${window}`,
      more: list.more,
      busy: list.busy,
      empty: h(Nothing, { title: 'No balances yet' }, html`<p>They come with the first request that is charged.</p>`)
    })}
  `
}

const money = (id: 'posted' | 'pending' | 'left' | 'limit', title: string): Column<Balance> => ({
  id,
  title,
  align: 'end',
  value: (balance) => (balance[`${id}_nano`] === null ? null : BigInt(balance[`${id}_nano`]!)),
  cell: (balance) =>
    balance[`${id}_nano`] === null ? html`<span class="quiet">none</span>` : h(Money, { nano: balance[`${id}_nano`] })
})

const balanceColumns: readonly Column<Balance>[] = [
  { id: 'scope', title: 'Scope', value: ({ scope }) => scope, cell: ({ scope }) => h(Text, { text: scope, most: 60 }) },
  { id: 'window', title: 'Window (UTC)', value: ({ window }) => window },
  money('limit', 'Limit'),
  money('posted', 'Posted'),
  money('pending', 'Pending'),
  money('left', 'Left'),
  {
    id: 'share',
    title: 'Used',
    cell: ({ limit_nano: limit, posted_nano: posted, pending_nano: pending }) => {
      if (limit === null || limit === '0') return ''
      const share = Number(((BigInt(posted) + BigInt(pending)) * 1000n) / BigInt(limit)) / 1000
      return h(Meter, { share, label: `${Math.round(share * 100)} % used` })
    }
  }
]
