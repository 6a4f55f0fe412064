// Reads the rows of tables in dumps: what pg_dump writes (COPY, or INSERT), mysqldump, and `.dump` of SQLite.

/** A row by its columns. Undefined stands for NULL, and everything else is text. */
export type Row = Readonly<Record<string, string | undefined>>

const escapes: Readonly<Record<string, string>> = { n: '\n', r: '\r', t: '\t', b: '\b', f: '\f', v: '\v', '0': '\0' }

/**
 * The rows of these tables, by the names of the tables; a table that the dump does not have has none.
 * @throws Error for a statement that cannot be read
 */
export function readDump(text: string, tables: readonly string[]): Map<string, Row[]> {
  const rows = new Map<string, Row[]>(tables.map((table) => [table, []]))
  const columns = new Map<string, string[]>()
  const statement =
    /^(CREATE TABLE(?: IF NOT EXISTS)?|COPY|INSERT (?:IGNORE )?INTO) (?:[\w"`]+\.)?["`]?(\w+)["`]?\s*(\([^)]*\))?/gm
  const mysql = /^-- MySQL|ENGINE=\w+/m.test(text)
  for (let match = statement.exec(text); match; match = statement.exec(text)) {
    const [head, kind, table, list] = match as unknown as [string, string, string, string | undefined]
    const found = rows.get(table)
    const after = match.index + head.length
    const named = list?.slice(1, -1).split(',').map(bare)
    if (kind.startsWith('CREATE')) {
      if (found) columns.set(table, columnsOf(text.slice(after - (list?.length ?? 0))))
      continue
    }
    // Rows of all tables are read to their ends: a text in one of them may look like a statement.
    const made = kind === 'COPY' ? copied(text, after) : inserted(text, after, table, mysql)
    statement.lastIndex = made.end
    if (found) for (const cells of made.rows) found.push(rowOf(cells, named ?? columns.get(table), table))
  }
  return rows
}

function rowOf(cells: readonly (string | undefined)[], columns: readonly string[] | undefined, table: string): Row {
  if (!columns) throw new Error(`the rows of ${table} stand before its columns: dump the table with its definition`)
  if (cells.length !== columns.length)
    throw new Error(`a row of ${table} cannot be read: it has ${cells.length} values, and ${columns.length} columns`)
  return Object.fromEntries(columns.map((column, index) => [column, cells[index]]))
}

/** The elements of an array as PostgreSQL writes it: `{a,"b c"}`. */
export function arrayOf(text: string | undefined): string[] {
  if (text === undefined || !text.startsWith('{')) return []
  return Array.from(text.slice(1, -1).matchAll(/"((?:[^"\\]|\\.)*)"|([^,]+)/g), ([, quoted, plain]) =>
    quoted === undefined ? plain! : quoted.replaceAll(/\\(.)/g, '$1')
  )
}

function bare(name: string): string {
  return name.trim().replaceAll(/["`]/g, '')
}

function columnsOf(definition: string): string[] {
  const columns: string[] = []
  const body = definition.slice(0, definition.indexOf(';\n'))
  const unquoted = !body.includes('`')
  for (const line of body.split(/[\n(,](?=\s*["`\w])/)) {
    const [, quoted, plain] = /^\s*(?:["`](\w+)["`]|(\w+))\s+\w/.exec(line) ?? []
    const name = quoted ?? (unquoted ? plain : undefined)
    if (name === undefined || (quoted === undefined && /^(?:PRIMARY|KEY|UNIQUE|INDEX|CONSTRAINT)$/i.test(name)))
      continue
    columns.push(name)
  }
  return columns
}

/** The values of some rows, and where in the text they end. */
interface Read {
  rows: (string | undefined)[][]
  end: number
}

function copied(text: string, from: number): Read {
  const rows: Read['rows'] = []
  let at = text.indexOf('\n', from) + 1
  while (at > 0 && at < text.length) {
    const next = text.indexOf('\n', at)
    const end = next === -1 ? text.length : next
    const line = text.slice(at, end)
    at = end + 1
    if (line === '\\.') break
    rows.push(line.split('\t').map((cell) => (cell === '\\N' ? undefined : unescaped(cell))))
  }
  return { rows, end: at === 0 ? text.length : at }
}

function unescaped(text: string): string {
  return text.replaceAll(/\\(.)/g, (_, sign: string) => escapes[sign] ?? sign)
}

/** The rows behind `VALUES`. `escaped`: a backslash takes the next sign out of its meaning. */
function inserted(text: string, from: number, table: string, escaped: boolean): Read {
  const fault = (at: number): Error =>
    new Error(`a row of ${table} cannot be read: ${JSON.stringify(text.slice(at, at + 40))}`)
  const token = escaped
    ? /\s*(?:('(?:[^'\\]|''|\\[^])*')|([^\s',();]+)|([(),;]))/y
    : /\s*(?:('(?:[^']|'')*')|([^\s',();]+)|([(),;]))/y
  const values = /\s*VALUES\s*/iy
  values.lastIndex = from
  if (!values.test(text)) throw fault(from)
  token.lastIndex = values.lastIndex
  const rows: Read['rows'] = []
  let cells: (string | undefined)[] = []
  for (;;) {
    const { lastIndex } = token
    const [, quoted, plain, sign] = token.exec(text) ?? []
    if (quoted !== undefined) {
      const inner = quoted.slice(1, -1).replaceAll("''", "'")
      cells.push(escaped ? unescaped(inner) : inner)
    } else if (plain !== undefined) cells.push(/^null$/i.test(plain) ? undefined : plain)
    else if (sign === '(') cells = []
    else if (sign === ')') rows.push(cells)
    else if (sign === ';') return { rows, end: token.lastIndex }
    else if (sign === undefined) throw fault(lastIndex)
  }
}
