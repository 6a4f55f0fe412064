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
  // At the beginning of a line, and never inside of a row: those have no line ends of their own in dumps.
  const statement =
    /^(CREATE TABLE(?: IF NOT EXISTS)?|COPY|INSERT (?:IGNORE )?INTO) (?:[\w"`]+\.)?["`]?(\w+)["`]?\s*(\([^)]*\))?/gm
  const mysql = /^-- MySQL|ENGINE=\w+/m.test(text)
  for (const match of text.matchAll(statement)) {
    const [head, kind, table, list] = match as unknown as [string, string, string, string | undefined]
    const found = rows.get(table)
    if (!found) continue
    const after = match.index + head.length
    const named = list?.slice(1, -1).split(',').map(bare)
    if (kind.startsWith('CREATE'))
      columns.set(table, columnsOf(text.slice(match.index + head.length - (list?.length ?? 0))))
    else if (kind === 'COPY') found.push(...copied(text, after, named ?? []))
    else found.push(...inserted(text, after, named ?? columns.get(table), table, mysql))
  }
  return rows
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

function* copied(text: string, from: number, columns: readonly string[]): Generator<Row> {
  let at = text.indexOf('\n', from) + 1
  for (;;) {
    const end = text.indexOf('\n', at)
    const line = end === -1 ? text.slice(at) : text.slice(at, end)
    if (line === '\\.' || line === '' || at === 0) return
    const cells = line.split('\t').map((cell) => (cell === '\\N' ? undefined : unescaped(cell)))
    yield Object.fromEntries(columns.map((column, index) => [column, cells[index]]))
    if (end === -1) return
    at = end + 1
  }
}

function unescaped(text: string): string {
  return text.replaceAll(/\\(.)/g, (_, sign: string) => escapes[sign] ?? sign)
}

/** The rows behind `VALUES`. `escaped`: a backslash takes the next sign out of its meaning. */
function* inserted(
  text: string,
  from: number,
  columns: readonly string[] | undefined,
  table: string,
  escaped: boolean
): Generator<Row> {
  if (!columns) throw new Error(`the rows of ${table} stand before its columns: dump the table with its definition`)
  const fault = (at: number): Error =>
    new Error(`a row of ${table} cannot be read: ${JSON.stringify(text.slice(at, at + 40))}`)
  const token = escaped
    ? /\s*(?:('(?:[^'\\]|''|\\[^])*')|([^\s',();]+)|([(),;]))/y
    : /\s*(?:('(?:[^']|'')*')|([^\s',();]+)|([(),;]))/y
  token.lastIndex = from
  const values = /\s*VALUES\s*/iy
  values.lastIndex = from
  if (!values.test(text)) throw fault(from)
  token.lastIndex = values.lastIndex
  let cells: (string | undefined)[] = []
  for (;;) {
    const { lastIndex } = token
    const [, quoted, plain, sign] = token.exec(text) ?? []
    if (quoted !== undefined) {
      const inner = quoted.slice(1, -1).replaceAll("''", "'")
      cells.push(escaped ? unescaped(inner) : inner)
    } else if (plain !== undefined) cells.push(/^null$/i.test(plain) ? undefined : plain)
    else if (sign === '(') cells = []
    else if (sign === ')') {
      if (cells.length !== columns.length) throw fault(lastIndex)
      yield Object.fromEntries(columns.map((column, index) => [column, cells[index]]))
    } else if (sign === ';') return
    else if (sign === undefined) throw fault(lastIndex)
  }
}
