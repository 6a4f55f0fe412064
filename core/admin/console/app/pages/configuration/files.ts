// The files of the configuration in an editor: checked while somebody writes, and saved where the file allows it.
import { useEffect, useMemo, useState } from 'preact/hooks'
import { get, send } from '../../api.ts'
import { h, html } from '../../html.ts'
import type { VNode } from '../../html.ts'
import { useLoad } from '../../load.ts'
import { say } from '../../parts/announcer.ts'
import { Confirm } from '../../parts/dialog.ts'
import { Diff } from '../../parts/diff.ts'
import { When } from '../../parts/states.ts'
import { Status } from '../../parts/status.ts'
import { address, setQuery } from '../../router.ts'
import { Editor } from './editor.ts'
import type { Node } from './completion.ts'
import { Changes, Problems } from './shown.ts'
import type { Problem } from './shown.ts'

interface File {
  readonly name: string
  readonly file: string
  readonly text: string
  readonly masked: number
}

interface Shown {
  readonly hash: string | null
  readonly in_use: string
  readonly writable: boolean
  readonly why: string | null
  readonly files: readonly File[]
  readonly problems: readonly Problem[]
}

interface Checked {
  readonly ok: boolean
  readonly problems: readonly Problem[]
  readonly warnings: readonly Problem[]
  readonly changes: readonly string[]
}

/** Milliseconds without a key until what was written is checked. */
const pause = 600

/** The view. */
export function Files(): VNode {
  const loaded = useLoad((signal) => get<Shown>('/admin/v1/config/file', {}, signal), [])
  const schema = useLoad((signal) => get<Node>('/admin/v1/config/schema', {}, signal), [])
  return h(When<Shown>, {
    loaded,
    children: (shown) =>
      shown.files.length === 0
        ? h(Problems, {
            problems: shown.problems,
            title:
              'The files on the disk have problems. They are not shown, as what of them is secret is not known then'
          })
        : h(Workplace, { key: shown.hash ?? '', shown, schema: schema.data, again: loaded.again })
  })
}

function Workplace({ shown, schema, again }: { shown: Shown; schema: Node | undefined; again: () => void }): VNode {
  const name = address.value.query.get('file')
  const file = shown.files.find((one) => one.name === name) ?? shown.files[0]!
  const [texts, setTexts] = useState<Readonly<Record<string, string>>>({})
  const [to, setTo] = useState<{ line: number }>()
  const [saving, setSaving] = useState(false)
  const changed = useMemo(
    () =>
      shown.files.flatMap((one) =>
        texts[one.name] === undefined || texts[one.name] === one.text
          ? []
          : [{ name: one.name, text: texts[one.name]! }]
      ),
    [texts, shown]
  )
  const checked = useChecked(changed)
  const writes = shown.writable && file.masked === 0
  useEffect(() => {
    if (changed.length === 0) return
    const ask = (event: BeforeUnloadEvent): void => event.preventDefault()
    addEventListener('beforeunload', ask)
    return () => removeEventListener('beforeunload', ask)
  }, [changed.length > 0])
  const goTo = (place: string): void => {
    const [, path = '', line = '1'] = /^(.*):(\d+):\d+$/.exec(place) ?? []
    const found = shown.files.find((one) => one.file === path || one.file.endsWith(`/${path}`))
    if (found && found !== file) setQuery({ file: found.name })
    setTo({ line: Number(line) })
  }
  const marks = new Map(
    (checked.data?.problems ?? []).flatMap(({ place, message }) => {
      const [, path = '', line] = /^(.*):(\d+):\d+$/.exec(place) ?? []
      return line !== undefined && (file.file === path || file.file.endsWith(`/${path}`))
        ? [[Number(line), message] as const]
        : []
    })
  )
  const save = async (): Promise<void> => {
    await send('PUT', '/admin/v1/config/file', { hash: shown.hash, files: changed })
    say('Saved and taken over')
    again()
  }
  return html`
    ${shown.why === null ? null : html`<p class="notice">These files are read only: ${shown.why}.</p>`}
    ${shown.hash === shown.in_use ? null : html`<p class="notice warn"><b>!</b> These files are not in use: they were changed since the last reload.</p>`}
    <div class="table-bar">
      ${
        shown.files.length < 2
          ? html`<code>${file.name}</code>`
          : html`<label
              >File
              <select
                value=${file.name}
                onChange=${(event: Event) => setQuery({ file: (event.target as HTMLSelectElement).value })}
              >
                ${shown.files.map((one) => html`<option value=${one.name} selected=${one === file}>${one.name}${changed.some((draft) => draft.name === one.name) ? ' *' : ''}</option>`)}
              </select></label
            >`
      }
      ${file.masked > 0 ? html`<span class="quiet">${`${file.masked} ${file.masked === 1 ? 'secret is' : 'secrets are'} not shown`}</span>` : null}
      <span class="grow"></span>
      ${changed.length === 0 ? null : html`<span role="status">${verdict(checked)}</span>`}
      ${changed.length === 0 ? null : html`<button type="button" onClick=${() => setTexts({})}>Undo all</button>`}
      ${
        shown.writable
          ? html`<button
              type="button"
              class="primary"
              disabled=${changed.length === 0 || !checked.data?.ok || checked.busy}
              onClick=${() => setSaving(true)}
            >
              Save…
            </button>`
          : null
      }
    </div>
    ${h(Editor, {
      key: file.name,
      label: `Text of ${file.name}`,
      text: (texts[file.name] ?? file.text).replaceAll('\r\n', '\n'),
      readOnly: !writes,
      schema,
      marks,
      to,
      change: (text) => setTexts((before) => ({ ...before, [file.name]: withLineEndsOf(file.text, text) }))
    })}
    ${checked.data ? h(Problems, { problems: checked.data.problems, title: 'What has to be mended before it can be saved', go: goTo }) : null}
    ${
      checked.data && checked.data.ok && changed.length > 0
        ? html`<h2>What it changes</h2>
            ${h(Changes, { changes: checked.data.changes, none: 'Nothing but comments and form.' })}
            ${
              checked.data.warnings.length === 0
                ? null
                : html`<h3>Warnings</h3>
                    <ul>
                      ${checked.data.warnings.map(({ place, message }) => html`<li><code>${place.split('/').at(-1)}</code> ${message}</li>`)}
                    </ul>`
            }`
        : null
    }
    ${saving ? h(Save, { shown, changed, changes: checked.data?.changes ?? [], act: save, close: () => setSaving(false) }) : null}
  `
}

/** The text of a field, where all lines end by a line feed, with the line ends of a file. */
function withLineEndsOf(file: string, text: string): string {
  return file.includes('\r\n') ? text.replaceAll('\n', '\r\n') : text
}

/** What is checked, and what came of it. */
interface Check {
  readonly data: Checked | undefined
  readonly busy: boolean
  readonly failed: string | undefined
}

/** Checks texts when nothing was written for a moment. */
function useChecked(changed: readonly { name: string; text: string }[]): Check {
  const [state, setState] = useState<Check>({ data: undefined, busy: false, failed: undefined })
  useEffect(() => {
    if (changed.length === 0) return setState({ data: undefined, busy: false, failed: undefined })
    const leaving = new AbortController()
    setState((before) => ({ ...before, busy: true }))
    const timer = setTimeout(() => {
      send<Checked>('POST', '/admin/v1/config/check', { files: changed }, { signal: leaving.signal }).then(
        (data) => setState({ data, busy: false, failed: undefined }),
        (error: Error) => leaving.signal.aborted || setState({ data: undefined, busy: false, failed: error.message })
      )
    }, pause)
    return () => {
      clearTimeout(timer)
      leaving.abort()
    }
  }, [changed])
  return state
}

function verdict({ data, busy, failed }: Check): VNode {
  if (busy) return html`<span class="quiet">checking…</span>`
  if (failed !== undefined) return h(Status, { tone: 'bad' }, `not checked: ${failed}`)
  if (!data) return html`<span></span>`
  const count = data.problems.length
  return data.ok
    ? h(Status, { tone: 'good' }, 'right')
    : h(Status, { tone: 'bad' }, `${count} ${count === 1 ? 'problem' : 'problems'}`)
}

interface SaveProps {
  shown: Shown
  changed: readonly { name: string; text: string }[]
  changes: readonly string[]
  act: () => Promise<void>
  close: () => void
}

function Save({ shown, changed, changes, act, close }: SaveProps): VNode {
  return h(
    Confirm,
    { title: 'Save and take over', action: 'Save', act, close },
    html`
      <p>The files are written and reloaded. They are put back when the gateway refuses them.</p>
      ${h(Changes, { changes, none: 'Nothing changes but comments and form.' })}
      ${changed.map(({ name, text }) => {
        const before = shown.files.find((one) => one.name === name)!.text
        return html`<h3><code>${name}</code></h3>
          ${h(Diff, { before, after: text, name: `Changes of ${name}` })}`
      })}
    `
  )
}
