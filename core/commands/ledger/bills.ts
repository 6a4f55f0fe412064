// Reads what upstreams say they counted and charge: pages of OpenAI's and Anthropic's usage and cost APIs, several in a
// file, and the CSV files of their consoles. Numbers are read digit by digit.
import type { PricedClass } from '../../money/classes.ts'

/** Whose form a file has. */
export type Provider = 'openai' | 'anthropic'

/** One line of a bill. */
export interface BillLine {
  /** The UTC day, `2026-11-21`. */
  day: string
  /** As the upstream names it; empty where it does not say. */
  model: string
  /** Undefined where the upstream does not say, or says it in words that mean nothing here. */
  class: PricedClass | undefined
  /** Undefined in a line of money, and the other way round. */
  units?: bigint
  /** In units of 10⁻¹⁵ dollars ({@link femto}), and by how much it may be rounded. */
  money?: { amount: bigint; half: bigint }
}

/** What a file says. */
export interface Bill {
  provider: Provider
  lines: BillLine[]
  /** The days that it is about, those without lines too. */
  days: Set<string>
}

/** A dollar in the unit of {@link BillLine.money}: a nano-dollar for a million units comes to whole numbers of it. */
export const femto = 10n ** 15n

/** How many decimals are read, so that numbers with the noise of floating point are exact too. */
const decimals = 30

/**
 * Reads a file. `provider` is whose form it must have; without it the form tells.
 * @throws Error with what is wrong with the file
 */
export function readBill(text: string, provider?: Provider): Bill {
  const trimmed = text.replace(/^\uFEFF/, '').trim()
  if (trimmed === '') throw new Error('the file is empty')
  const bill = /^[[{]/.test(trimmed) ? readPages(trimmed) : readCsv(trimmed)
  if (provider !== undefined && bill.provider !== provider)
    throw new Error(`the file has the form of ${bill.provider}, and --provider says ${provider}`)
  return bill
}

type Json = string | boolean | null | Json[] | { [name: string]: Json }
type Fields = { readonly [name: string]: Json | undefined }

function readPages(text: string): Bill {
  const pages = values(text).flatMap((value) => (Array.isArray(value) ? value : [value]))
  const bills = pages.flatMap((page) => {
    const { data } = fieldsOf(page)
    if (!Array.isArray(data)) throw new Error('a page has no list "data": give the answers of a usage or cost API')
    return data.map((bucket) => readBucket(fieldsOf(bucket)))
  })
  const [first] = bills
  if (!first) throw new Error('the file has no bucket of any day')
  if (bills.some((bill) => bill.provider !== first.provider)) throw new Error('the file has pages of two providers')
  return {
    provider: first.provider,
    lines: bills.flatMap(({ lines }) => lines),
    days: new Set(bills.flatMap(({ days }) => days))
  }
}

/** The JSON values of a text, one behind the other. Numbers stay text, so that no digit is lost. */
function values(text: string): Json[] {
  const found: Json[] = []
  let [depth, start, quoted] = [0, 0, false]
  for (let at = 0; at < text.length; at++) {
    const character = text[at]
    if (quoted) {
      if (character === '\\') at++
      else if (character === '"') quoted = false
    } else if (character === '"') quoted = true
    else if (character === '{' || character === '[') depth++
    else if (character === '}' || character === ']') {
      if (--depth !== 0) continue
      found.push(parsed(text.slice(start, at + 1)))
      start = at + 1
    }
  }
  if (text.slice(start).trim() !== '') throw new Error('the file ends in the middle of a page')
  return found
}

function parsed(text: string): Json {
  const asText = (_: string, value: unknown, { source }: { source?: string } = {}): unknown =>
    typeof value === 'number' ? source : value
  try {
    return JSON.parse(text, asText as Parameters<typeof JSON.parse>[1]) as Json
  } catch (error) {
    throw new Error(`a page is not JSON: ${(error as Error).message}`)
  }
}

function fieldsOf(value: Json | undefined): Fields {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new Error('the file has a page, a bucket or a result that is not an object')
  return value
}

function readBucket(bucket: Fields): { provider: Provider; lines: BillLine[]; days: string[] } {
  const { start_time: openai, end_time: until, starting_at: anthropic, ending_at: ending, results } = bucket
  const provider = anthropic === undefined ? 'openai' : 'anthropic'
  const [from, to] =
    provider === 'openai'
      ? [unixMs(openai), unixMs(until)]
      : [Date.parse(textOf(anthropic)), Date.parse(textOf(ending))]
  if (!Number.isFinite(from) || !Array.isArray(results))
    throw new Error('a bucket has no beginning (start_time or starting_at), or no results')
  if (to - from > dayMs) throw new Error('a bucket is longer than a day: ask for days (1d) or less')
  const day = dayText(from)
  const read = provider === 'openai' ? openaiLines : anthropicLines
  return { provider, lines: results.flatMap((result) => read(day, fieldsOf(result))), days: [day] }
}

const dayMs = 86_400_000

function unixMs(seconds: Json | undefined): number {
  return typeof seconds === 'string' ? Number(seconds) * 1000 : NaN
}

function dayText(time: number): string {
  return new Date(time).toISOString().slice(0, 10)
}

function textOf(value: Json | undefined): string {
  return typeof value === 'string' ? value : ''
}

function openaiLines(day: string, result: Fields): BillLine[] {
  if (result['amount'] !== undefined) {
    const { value, currency } = fieldsOf(result['amount'])
    checkCurrency(textOf(currency))
    return [{ day, ...lineItem(textOf(result['line_item'])), money: exact(moneyOf(textOf(value), 0)) }]
  }
  const model = textOf(result['model'])
  const count = (name: string): bigint => countOf(textOf(result[name]) || '0', name)
  const cached = count('input_cached_tokens')
  return unitLines(day, model, {
    input: count('input_tokens') - cached,
    cached_input: cached,
    output: count('output_tokens'),
    audio_input: count('input_audio_tokens'),
    audio_output: count('output_audio_tokens')
  })
}

/** A line of an invoice, `gpt-5-2025-08-07, cached input`. */
function lineItem(text: string): Pick<BillLine, 'model' | 'class'> {
  const [, model, words] = /^(.+), ([a-z ]+)$/.exec(text) ?? []
  const name = words?.replaceAll(' ', '_')
  if (model === undefined || name === undefined) return { model: text, class: undefined }
  return { model, class: itemClasses.find((known) => known === name) }
}

const itemClasses: readonly PricedClass[] = ['input', 'cached_input', 'output', 'audio_input', 'audio_output']

/** The classes of Anthropic's words, in pages and, with `usage_` in front, in CSV. */
const anthropicClasses: Readonly<Record<string, PricedClass>> = {
  uncached_input_tokens: 'input',
  input_tokens_no_cache: 'input',
  cache_read_input_tokens: 'cached_input',
  input_tokens_cache_read: 'cached_input',
  'cache_creation.ephemeral_5m_input_tokens': 'cache_write',
  input_tokens_cache_write_5m: 'cache_write',
  'cache_creation.ephemeral_1h_input_tokens': 'cache_write_long',
  input_tokens_cache_write_1h: 'cache_write_long',
  output_tokens: 'output',
  'server_tool_use.web_search_requests': 'web_search',
  web_search_count: 'web_search'
}

function anthropicLines(day: string, result: Fields): BillLine[] {
  const model = textOf(result['model'])
  if (result['amount'] !== undefined) {
    checkCurrency(textOf(result['currency']))
    const name = textOf(result['cost_type']) === 'web_search' ? 'web_search' : undefined
    // Amounts are in cents.
    const money = moneyOf(textOf(result['amount']), 2)
    return [{ day, model, class: name ?? anthropicClasses[textOf(result['token_type'])], money }]
  }
  const units: Partial<Record<PricedClass, bigint>> = {}
  for (const [path, name] of Object.entries(anthropicClasses)) {
    const [outer, inner] = path.split('.') as [string, string?]
    const value = inner === undefined ? result[outer] : result[outer] ? fieldsOf(result[outer])[inner] : undefined
    if (typeof value === 'string') units[name] = countOf(value, path)
  }
  return unitLines(day, model, units)
}

function unitLines(day: string, model: string, units: Partial<Record<PricedClass, bigint>>): BillLine[] {
  return Object.entries(units)
    .filter(([, number]) => number !== 0n)
    .map(([name, number]) => ({ day, model, class: name as PricedClass, units: number }))
}

function readCsv(text: string): Bill {
  const [head, ...rows] = csvRows(text)
  const lines: BillLine[] = []
  const days = new Set<string>()
  const names = new Set(head)
  const kind = ['usage_input_tokens_no_cache', 'cost_usd', 'amount_value', 'num_model_requests'].find((name) =>
    names.has(name)
  )
  if (kind === undefined)
    throw new Error(`the file is no export that is known: its columns are ${(head ?? []).slice(0, 8).join(', ')}`)
  const provider = kind === 'amount_value' || kind === 'num_model_requests' ? 'openai' : 'anthropic'
  for (const row of rows) {
    const cells = Object.fromEntries(head!.map((name, index) => [name, row[index] ?? '']))
    const seconds = Number(cells['start_time'] || NaN)
    const day = dayText(provider === 'openai' ? seconds * 1000 : Date.parse(cells['usage_date_utc']!))
    days.add(day)
    if (kind === 'amount_value') {
      checkCurrency(cells['amount_currency']!)
      if (cells['amount_value'] !== '')
        lines.push({ day, ...lineItem(cells['line_item'] ?? ''), money: exact(moneyOf(cells['amount_value']!, 0)) })
    } else if (kind === 'num_model_requests') lines.push(...openaiLines(day, cells))
    else if (kind === 'cost_usd') {
      const name = anthropicClasses[cells['token_type'] ?? '']
      lines.push({ day, model: cells['model'] ?? '', class: name, money: moneyOf(cells['cost_usd']!, 0) })
    } else {
      const units: Partial<Record<PricedClass, bigint>> = {}
      for (const [word, name] of Object.entries(anthropicClasses)) {
        const cell = cells[`usage_${word}`] ?? cells[word]
        if (cell) units[name] = countOf(cell, word)
      }
      lines.push(...unitLines(day, cells['model_version'] ?? cells['model'] ?? '', units))
    }
  }
  return { provider, lines, days }
}

/** The rows of a CSV file (RFC 4180). */
function csvRows(text: string): string[][] {
  const rows: string[][] = [[]]
  for (const [, quoted, plain = '', end] of `${text}\n`.matchAll(/(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r?\n|$)/g)) {
    if (end === '') break
    rows.at(-1)!.push((quoted?.replaceAll('""', '"') ?? plain).trim())
    if (end !== ',') rows.push([])
  }
  return rows.filter((row) => row.length > 1)
}

function checkCurrency(currency: string): void {
  if (currency !== '' && currency.toLowerCase() !== 'usd')
    throw new Error(`an amount is in ${currency.toUpperCase()}: the ledger is in US dollars`)
}

function countOf(text: string, name: string): bigint {
  const plain = text.replace(/(?<=\d),(?=\d{3})/g, '').replace(/\.0+$/, '')
  if (!/^\d{1,18}$/.test(plain)) throw new Error(`${name} is ${JSON.stringify(text)}: it must be a whole number`)
  return BigInt(plain)
}

/** OpenAI's amounts are not rounded, however few digits they have. */
function exact(money: { amount: bigint; half: bigint }): { amount: bigint; half: bigint } {
  return { ...money, half: 0n }
}

/** Reads a decimal amount, of which `shift` digits are cents and the like, and what a half of its last digit is. */
function moneyOf(text: string, shift: number): { amount: bigint; half: bigint } {
  const [, sign, whole = '', fraction = '', exponent = '0'] =
    /^(-?)(\d{1,15})(?:\.(\d{1,30}))?(?:e([+-]?\d{1,2}))?$/i.exec(text.trim()) ?? []
  const places = fraction.length + shift - Number(exponent)
  if (whole === '' || places > decimals || places < -15)
    throw new Error(`an amount is ${JSON.stringify(text)}: it must be a decimal number`)
  const fine = BigInt(whole + fraction) * 10n ** BigInt(decimals - places)
  const unit = 10n ** BigInt(decimals) / femto
  const amount = (fine + unit / 2n) / unit
  const half = 10n ** BigInt(Math.max(decimals - places, 0)) / unit / 2n
  return { amount: sign === '-' ? -amount : amount, half }
}
