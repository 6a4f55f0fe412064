// The configurations that were in use: what each changed, how it differs from the one in use, and going back to one.
import { useState } from 'preact/hooks'
import { get, send } from '../../api.ts'
import { h, html } from '../../html.ts'
import type { VNode } from '../../html.ts'
import { useList, useLoad } from '../../load.ts'
import { say } from '../../parts/announcer.ts'
import { Confirm } from '../../parts/dialog.ts'
import { Diff } from '../../parts/diff.ts'
import { Panel } from '../../parts/panel.ts'
import { Failure, Nothing, When } from '../../parts/states.ts'
import { Status } from '../../parts/status.ts'
import { Table } from '../../parts/table.ts'
import type { Column } from '../../parts/table.ts'
import { Id, Text } from '../../parts/text.ts'
import { Time } from '../../parts/time.ts'
import { address, linkTo } from '../../router.ts'
import { may } from '../../session.ts'
import { Changes } from './shown.ts'

interface Past {
  readonly seq: number
  readonly hash: string
  readonly time: string
  readonly reason: string
  readonly by: string | null
  readonly changes: readonly string[]
}

interface Whole extends Past {
  readonly config: Readonly<Record<string, unknown>>
}

/** The view. */
export function History(): VNode {
  const list = useList<Past>('/admin/v1/config/history')
  const hash = address.value.rest[1]
  const current = list.rows[0]?.hash
  const chosen = list.rows.find((past) => past.hash === hash)
  return html`
    ${list.error ? h(Failure, { error: list.error, again: list.again }) : null}
    <div class=${hash === undefined ? '' : 'split'}>
      ${h(Table<Past>, {
        name: 'configurations',
        columns: columnsFor(current),
        rows: list.rows,
        keyOf: ({ seq }) => String(seq),
        open: (past) => linkTo('configuration', ['history', past.hash]),
        current: chosen && String(chosen.seq),
        more: list.more,
        busy: list.busy,
        empty: h(Nothing, { title: 'No history' }, html`<p>The last 50 configurations are kept beside the store.</p>`)
      })}
      ${hash === undefined ? null : h(PastPanel, { key: hash, hash, inUse: hash === current, done: list.again })}
    </div>
  `
}

function columnsFor(current: string | undefined): readonly Column<Past>[] {
  return [
    { id: 'time', title: 'In use since', value: ({ time }) => time, cell: ({ time }) => h(Time, { at: time }) },
    {
      id: 'hash',
      title: 'Hash',
      value: ({ hash }) => hash,
      cell: ({ hash, seq }) =>
        html`${h(Id, { id: hash, most: 14 })}
        ${hash === current && seq > 0 ? h(Status, { tone: 'good' }, 'in use') : null}`
    },
    { id: 'reason', title: 'Cause', value: ({ reason }) => reason },
    {
      id: 'by',
      title: 'By',
      value: ({ by }) => by,
      cell: ({ by }) => (by === null ? html`<span class="quiet">nobody</span>` : h(Text, { text: by, most: 30 }))
    },
    {
      id: 'changes',
      title: 'What it changed',
      value: ({ changes }) => changes.join('; '),
      cell: ({ changes }) => h(Text, { text: changes.join('; ') || 'nothing', most: 80 })
    }
  ]
}

function PastPanel({ hash, inUse, done }: { hash: string; inUse: boolean; done: () => void }): VNode {
  const loaded = useLoad(
    async (signal) => {
      const [past, now] = await Promise.all([
        get<Whole>(`/admin/v1/config/history/${encodeURIComponent(hash)}`, {}, signal),
        get<{ config: Whole['config'] }>('/admin/v1/config', {}, signal)
      ])
      return { past, now: now.config }
    },
    [hash, inUse]
  )
  const [asking, setAsking] = useState(false)
  const back = async (force: boolean): Promise<void> => {
    await send('POST', '/admin/v1/config/rollback', { hash, force })
    say('Rolled back')
    done()
    loaded.again()
  }
  const list = linkTo('configuration', ['history'])
  return h(
    Panel,
    { label: 'Configuration of the history', back: list },
    html`
      <div class="dialog-head">
        <h2>${h(Id, { id: hash, most: 20 })}</h2>
        <a class="button plain small" href=${list} aria-label="Close">✕</a>
      </div>
      ${h(When<{ past: Whole; now: Whole['config'] }>, {
        loaded,
        children: ({ past, now }) => html`
          <h3>What it changed</h3>
          ${h(Changes, { changes: past.changes, none: 'It was that of a start.' })}
          ${
            may({ needs: 'operate' }) && !inUse
              ? html`<p>
                  <button type="button" class="danger" onClick=${() => setAsking(true)}>Roll back to it…</button>
                </p>`
              : null
          }
          <h3>From it to the one in use</h3>
          ${h(Diff, {
            before: JSON.stringify(past.config, null, 2),
            after: JSON.stringify(now, null, 2),
            name: 'From this configuration to the one in use'
          })}
        `
      })}
      ${asking ? h(Back, { hash, act: back, close: () => setAsking(false) }) : null}
    `
  )
}

function Back({
  hash,
  act,
  close
}: {
  hash: string
  act: (force: boolean) => Promise<void>
  close: () => void
}): VNode {
  const [force, setForce] = useState(false)
  return h(
    Confirm,
    { title: 'Roll back', action: 'Roll back', act: () => act(force), close },
    html`
      <p>
        The files are written as they were in <code>${hash.slice(0, 12)}</code>, the present ones are kept beside them,
        and they are reloaded. When they cannot be used, everything stays as it is.
      </p>
      <label class="check"
        ><input
          type="checkbox"
          checked=${force}
          onChange=${(event: Event) => setForce((event.target as HTMLInputElement).checked)}
        />
        Also when the files on the disk were edited since</label
      >
    `
  )
}
