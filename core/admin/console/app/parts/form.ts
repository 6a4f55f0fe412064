// A form made of a JSON schema: the very schemas by which the API checks what the form sends.
import { useId, useState } from 'preact/hooks'
import type { ApiError } from '../api.ts'
import { h, html } from '../html.ts'
import type { VNode } from '../html.ts'
import { emptyOf, fits, kindOf, plain, shownValue, variantName, variantsOf } from './schema.ts'
import type { Schema } from './schema.ts'

/** An object as a form edits it. Members that are left empty are not there. */
export type Values = Readonly<Record<string, unknown>>

/** What a form needs. */
export interface FormProps {
  /** The schema of an object. */
  schema: Schema
  value: Values
  change(next: Values): void
  /** What was refused: shown at the member that it names. */
  error?: ApiError | undefined
  /** Members that are not shown, or are shown elsewhere. */
  without?: readonly string[]
  /** Members that come first, in this order. */
  first?: readonly string[]
  /** Words that are offered for texts, by member: names of tenants, of models. */
  offers?: Readonly<Record<string, readonly string[]>>
}

/** Draws a field for each member of the object. Put it into a `form` with the button that sends it. */
export function SchemaForm({ schema, value, change, error, without = [], first = [], offers = {} }: FormProps): VNode {
  const names = Object.keys(schema.properties ?? {}).filter((name) => !without.includes(name))
  const ordered = [...first.filter((name) => names.includes(name)), ...names.filter((name) => !first.includes(name))]
  return html`<div class="members">
    ${ordered.map((name) =>
      h(Member, {
        key: name,
        name,
        path: name,
        schema: schema.properties![name]!,
        value: value[name],
        required: schema.required?.includes(name) ?? false,
        error,
        offers,
        change: (next: unknown) => change(withMember(value, name, next))
      })
    )}
  </div>`
}

/** An object with another member; undefined takes it out. */
export function withMember(value: Values, name: string, next: unknown): Values {
  const { [name]: _old, ...rest } = value
  return next === undefined ? rest : { ...value, [name]: next }
}

interface MemberProps {
  name: string
  /** With dots, as the API names it in refusals. */
  path: string
  schema: Schema
  value: unknown
  required: boolean
  error: ApiError | undefined
  offers: Readonly<Record<string, readonly string[]>>
  change(next: unknown): void
}

function Member(props: MemberProps): VNode {
  const schema = plain(props.schema)
  const kind = kindOf(schema)
  if (kind === 'object' || kind === 'map' || kind === 'list' || kind === 'variants')
    return h(Group, { ...props, schema })
  return h(Field, { ...props, schema })
}

function wrongAt({ error, path }: MemberProps): string | undefined {
  return error?.param === path ? error.message : undefined
}

/** One field with its label, its explanation and what is wrong with it. */
function Field(props: MemberProps): VNode {
  const { schema, name, required } = props
  const id = useId()
  const wrong = wrongAt(props)
  const described = [schema.description ? `${id}-help` : '', wrong === undefined ? '' : `${id}-wrong`].join(' ').trim()
  const aria = {
    id,
    'aria-describedby': described === '' ? undefined : described,
    'aria-invalid': wrong === undefined ? undefined : 'true',
    'aria-required': required ? 'true' : undefined
  }
  const label = html`<label class="label" for=${id}
    >${schema.title ?? name}${required ? html` <span class="quiet">(needed)</span>` : null}</label
  >`
  const input = inputFor(props, aria, id)
  return html`
    <div class="field">
      ${kindOf(schema) === 'flag' ? html`<span class="check">${input}${label}</span>` : html`${label}${input}`}
      ${schema.description ? html`<span class="help" id=${`${id}-help`}>${schema.description}</span>` : null}
      ${wrong === undefined ? null : html`<span class="wrong" role="alert" id=${`${id}-wrong`}>✕ ${wrong}</span>`}
    </div>
  `
}

const typed = (event: Event): string => (event.target as HTMLInputElement).value

function inputFor({ schema, name, value, change, offers, required }: MemberProps, aria: object, id: string): VNode {
  const kind = kindOf(schema)
  const hint = schema.default === undefined ? schema.examples?.[0] : schema.default
  const placeholder = hint === undefined || typeof hint === 'object' ? undefined : shownValue(hint)
  const offered = offers[name]
  switch (kind) {
    case 'choice':
      return html`<select
        ...${aria}
        onChange=${(event: Event) => change(typed(event) === '' ? undefined : JSON.parse(typed(event)))}
      >
        ${required && value !== undefined ? null : html`<option value="" selected=${value === undefined}>${schema.default === undefined ? 'Choose' : `${shownValue(schema.default)} (unless chosen)`}</option>`}
        ${schema.enum!.map((one) => html`<option value=${JSON.stringify(one)} selected=${one === value}>${shownValue(one)}</option>`)}
      </select>`
    case 'flag':
      return html`<input
        type="checkbox"
        ...${aria}
        checked=${value ?? schema.default ?? false}
        onChange=${(event: Event) => change((event.target as HTMLInputElement).checked)}
      />`
    case 'number':
      return html`<input
        ...${aria}
        inputmode="decimal"
        autocomplete="off"
        placeholder=${placeholder}
        value=${value ?? ''}
        onInput=${(event: Event) => change(numberIn(typed(event)))}
      />`
    case 'lines':
      return html`<textarea
        ...${aria}
        rows=${Math.min(8, Math.max(2, (value as unknown[] | undefined)?.length ?? 0))}
        placeholder="One a line"
        onChange=${(event: Event) => change(linesIn(typed(event), schema.items!))}
      >
${((value as unknown[] | undefined) ?? []).map(shownValue).join('\n')}</textarea>`
    case 'text':
      return html`<input
          ...${aria}
          type=${schema.writeOnly ? 'password' : 'text'}
          autocomplete="off"
          placeholder=${placeholder}
          value=${value ?? ''}
          list=${offered ? `${id}-list` : undefined}
          onInput=${(event: Event) => change(typed(event) === '' ? undefined : typed(event))}
        />
        ${offered ? html`<datalist id=${`${id}-list`}>${offered.map((one) => html`<option value=${one}></option>`)}</datalist>` : null}`
    default:
      return h(JsonInput, { aria, value, change })
  }
}

/** What was typed as a number; what is none stays text, for the API to refuse it by name. */
function numberIn(text: string): unknown {
  if (text.trim() === '') return undefined
  const value = Number(text)
  return Number.isFinite(value) ? value : text
}

function linesIn(text: string, items: Schema): unknown {
  const lines = text.split('\n').flatMap((line) => (line.trim() === '' ? [] : [line.trim()]))
  if (lines.length === 0) return undefined
  return plain(items).type === 'string' ? lines : lines.map(numberIn)
}

/** A value that no field is made for, as JSON. */
function JsonInput({ aria, value, change }: { aria: object; value: unknown; change(next: unknown): void }): VNode {
  const [text, setText] = useState(value === undefined ? '' : JSON.stringify(value, null, 2))
  const [wrong, setWrong] = useState(false)
  const take = (event: Event): void => {
    const next = typed(event)
    setText(next)
    try {
      change(next.trim() === '' ? undefined : JSON.parse(next))
      setWrong(false)
    } catch {
      setWrong(true)
    }
  }
  return html`<textarea
      ...${aria}
      rows="3"
      spellcheck=${false}
      placeholder="JSON"
      value=${text}
      onInput=${take}
    ></textarea>
    ${wrong ? html`<span class="wrong" role="alert">✕ This is not JSON yet.</span>` : null}`
}

/** A member that has members: it is there when the reader adds it. */
function Group(props: MemberProps): VNode {
  const { schema, name, value, required, change } = props
  const wrong = wrongAt(props)
  const variants = variantsOf(schema)
  const title = schema.title ?? name
  const there = value !== undefined
  const begin = (): void => change(emptyOf(variants[0] ?? schema) ?? {})
  return html`
    <fieldset>
      <legend>${title}${required ? html` <span class="quiet">(needed)</span>` : null}</legend>
      ${schema.description ? html`<p class="quiet">${schema.description}</p>` : null}
      ${wrong === undefined ? null : html`<p class="wrong" role="alert">✕ ${wrong}</p>`}
      ${there ? h(Content, props) : null}
      ${
        // Two buttons, and not one with another text: what is set is in the place of the first, and has its focus then.
        there
          ? html`<button key="out" type="button" class="small" onClick=${() => change(undefined)}>Without ${title}</button>`
          : html`<button key="in" type="button" class="small" onClick=${begin}>Set ${title}</button>`
      }
    </fieldset>
  `
}

function Content(props: MemberProps): VNode {
  const { schema, value, path, change, error, offers } = props
  const variants = variantsOf(schema)
  if (variants.length > 0) {
    const place = Math.max(
      0,
      variants.findIndex((one) => fits(one, value))
    )
    const pick = (event: Event): void => change(emptyOf(variants[Number(typed(event))]!) ?? '')
    return html`
      <label class="field"
        ><span>Form</span>
        <select onChange=${pick}>
          ${variants.map((one, at) => html`<option value=${at} selected=${at === place}>${variantName(one)}</option>`)}
        </select>
      </label>
      ${h(Inner, { ...props, schema: plain(variants[place]!), key: place })}
    `
  }
  const kind = kindOf(schema)
  if (kind === 'object') {
    return html`${Object.entries(schema.properties!).map(([name, one]) =>
      h(Member, {
        key: name,
        name,
        path: `${path}.${name}`,
        schema: one,
        value: (value as Values)[name],
        required: schema.required?.includes(name) ?? false,
        error,
        offers,
        change: (next: unknown) => change(withMember(value as Values, name, next))
      })
    )}`
  }
  return kind === 'map' ? h(MapOf, props) : h(ListOf, props)
}

/** An alternative: its members, or its one field. */
function Inner(props: MemberProps): VNode {
  const kind = kindOf(props.schema)
  const nested = kind === 'object' || kind === 'map' || kind === 'list' || kind === 'variants'
  return nested ? h(Content, props) : h(Field, props)
}

function ListOf({ schema, value, path, change, ...rest }: MemberProps): VNode {
  const items = value as readonly unknown[]
  const item = plain(schema.items!)
  return html`
    ${items.map((one, place) =>
      h(Member, {
        ...rest,
        key: place,
        name: `${place + 1}`,
        path: `${path}.${place}`,
        required: false,
        schema: item,
        value: one,
        change: (next: unknown) => change(next === undefined ? items.toSpliced(place, 1) : items.with(place, next))
      })
    )}
    <button type="button" class="small" onClick=${() => change([...items, emptyOf(item) ?? ''])}>Add one</button>
  `
}

function MapOf({ schema, value, path, change, ...rest }: MemberProps): VNode {
  const [name, setName] = useState('')
  const given = value as Values
  const item = schema.additionalProperties as Schema
  const add = (): void => {
    if (name.trim() !== '' && given[name.trim()] === undefined) change({ ...given, [name.trim()]: emptyOf(item) ?? '' })
    setName('')
  }
  return html`
    ${Object.entries(given).map(([one, content]) =>
      h(Member, {
        ...rest,
        key: one,
        name: one,
        path: `${path}.${one}`,
        required: false,
        schema: { ...item, title: one },
        value: content,
        change: (next: unknown) => change(withMember(given, one, next))
      })
    )}
    <span class="actions">
      <input
        class="slim"
        aria-label=${`Name in ${schema.title ?? rest.name}`}
        placeholder="Name"
        value=${name}
        onInput=${(event: Event) => setName(typed(event))}
      />
      <button type="button" class="small" onClick=${add}>Add</button>
    </span>
  `
}
