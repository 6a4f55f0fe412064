// Operational logging: JSON lines with a level, a phrase and fields.
import { styleText } from 'node:util'
import { LineWriter } from './line-writer.ts'
import { thrownStack } from '../thrown.ts'

/**
 * The fields of a line. Values are logged as they are: never pass a whole request, header map or configuration object.
 */
export type LogFields = Readonly<Record<string, unknown>>

/** Writes lines; `child` adds fields to every line. */
export interface Logger {
  debug(message: string, fields?: LogFields): void
  info(message: string, fields?: LogFields): void
  warn(message: string, fields?: LogFields): void
  error(message: string, fields?: LogFields): void
  child(fields: LogFields): Logger
}

/** The logger of a program, which has to flush before it exits. */
export interface ProgramLogger extends Logger {
  /** Resolves when everything logged was written, or after a second at most. Call it last before an exit. */
  flush(): Promise<void>
}

const severities = { debug: 10, info: 20, warn: 30, error: 40 } as const

/** The level from which on lines are written. */
export type LogLevel = keyof typeof severities
/** From the least to the most severe. */
export const logLevels = Object.keys(severities) as readonly LogLevel[]

/** Which lines are written, where, and in which form. */
export interface LogOptions {
  level?: LogLevel
  /** Writes lines for people at a terminal, with time, level and message first, instead of JSON. */
  pretty?: boolean
  /**
   * Takes one line with its line end. The default is standard error, which is never waited for; dropped lines are
   * counted.
   */
  write?(line: string): void
}

/** The most characters of one value. Longer ones are cut, so that no single value can fill a disk. */
const longestValue = 8 * 1024

/** Makes the logger of a program. The field names are those of pino: `time`, `level`, `msg`. */
export function createLogger({ level = 'info', pretty = false, write }: LogOptions = {}): ProgramLogger {
  const format = pretty ? prettyLine : jsonLine
  const threshold = severities[level]
  const stderr = write
    ? undefined
    : new LineWriter(process.stderr, (lines) =>
        line({}, 'warn', 'log lines were lost: more came than standard error took', { lines })
      )
  const put = write ?? ((text) => stderr?.write(text))
  const line = (base: LogFields, of: LogLevel, message: string, fields?: LogFields): void => {
    if (severities[of] >= threshold) put(format(of, message, { ...base, ...fields }).replace(secrets, '$1[redacted]'))
  }
  const at = (base: LogFields): Logger => ({
    debug: (message, fields) => line(base, 'debug', message, fields),
    info: (message, fields) => line(base, 'info', message, fields),
    warn: (message, fields) => line(base, 'warn', message, fields),
    error: (message, fields) => line(base, 'error', message, fields),
    child: (fields) => at({ ...base, ...fields })
  })
  return { ...at({}), flush: () => stderr?.flush() ?? Promise.resolve() }
}

/** A logger that writes nothing: for tests, and for programs that embed a gateway. */
export const silentLog: Logger = { debug() {}, info() {}, warn() {}, error() {}, child: () => silentLog }

/** A logger that writes nothing, and neither do its children, until `open` is called. */
export function closedLog(log: Logger): { readonly log: Logger; open(): void } {
  let isOpen = false
  const on = (to: Logger): Logger => ({
    debug: (message, fields) => void (isOpen && to.debug(message, fields)),
    info: (message, fields) => void (isOpen && to.info(message, fields)),
    warn: (message, fields) => void (isOpen && to.warn(message, fields)),
    error: (message, fields) => void (isOpen && to.error(message, fields)),
    child: (fields) => on(to.child(fields))
  })
  return { log: on(log), open: () => void (isOpen = true) }
}

/** Text that looks like a key, anywhere in a line: an upstream may quote the credential that it refuses. */
const secrets = /\b(sk-|bearer )[\w.~+/=-]{8,}/gi
/** Names of fields whose value is always treated as a secret. */
const secretNames = /^(authorization|x-api-key|api_?key|credential|secret|password|token|cookie)$/i

function jsonLine(level: LogLevel, message: string, fields: LogFields): string {
  const own = { time: new Date().toISOString(), level, msg: message }
  return `${stringify({ ...own, ...fields, ...own })}\n`
}

const colours = { debug: 'gray', info: 'cyan', warn: 'yellow', error: 'red' } as const

function prettyLine(level: LogLevel, message: string, fields: LogFields): string {
  const paint = (colour: Parameters<typeof styleText>[0], text: string): string =>
    styleText(colour, text, { stream: process.stderr })
  const rest = Object.entries(fields).map(([name, value]) => {
    const shown = plain(name, value)
    return ` ${paint('gray', `${name}=`)}${typeof shown === 'string' ? shown : stringify(shown)}`
  })
  return `${new Date().toISOString().slice(11, 23)} ${paint(colours[level], level.padEnd(5))} ${message}${rest.join('')}\n`
}

/** A line as it may be sent elsewhere: no secrets, and every field a text, a number or a flag. */
export function tellable(
  message: string,
  fields: LogFields
): { text: string; attributes: Record<string, string | number | boolean> } {
  const attributes: Record<string, string | number | boolean> = {}
  for (const [name, value] of Object.entries(fields)) {
    const shown = plain(name, value)
    if (shown === undefined || shown === null) continue
    attributes[name] =
      typeof shown === 'number' || typeof shown === 'boolean'
        ? shown
        : (typeof shown === 'string' ? shown : stringify(shown)).replace(secrets, '$1[redacted]')
  }
  return { text: message.replace(secrets, '$1[redacted]'), attributes }
}

function stringify(value: unknown): string {
  try {
    return JSON.stringify(value, plain) ?? 'undefined'
  } catch {
    return '"[circular]"'
  }
}

/** Hides secrets by field name, writes BigInt as text and errors with their stack, and cuts long text. */
function plain(name: string, value: unknown): unknown {
  if (secretNames.test(name)) return '[redacted]'
  if (typeof value === 'bigint') return value.toString()
  const text = value instanceof Error ? thrownStack(value) : value
  return typeof text === 'string' && text.length > longestValue ? `${text.slice(0, longestValue)}…` : text
}
