// Operational logging: JSON lines with a level, a phrase and fields.
import { writeSync } from 'node:fs'
import { styleText } from 'node:util'

/** Fields of a line. Values are shown as they are: never pass a whole request, header map or config object. */
export type LogFields = Readonly<Record<string, unknown>>

/** Writes lines; `child` adds fields to every line. */
export interface Logger {
  debug(message: string, fields?: LogFields): void
  info(message: string, fields?: LogFields): void
  warn(message: string, fields?: LogFields): void
  error(message: string, fields?: LogFields): void
  child(fields: LogFields): Logger
}

const levels = { debug: 10, info: 20, warn: 30, error: 40 } as const

/** From this level on lines are written. */
export type LogLevel = keyof typeof levels

/** Where lines go and which. */
export interface LogOptions {
  level?: LogLevel
  /** For people at a terminal instead of programs: time, level and phrase first. */
  pretty?: boolean
  /** Takes one line with its line end; default standard error, synchronously, so that the last line before a crash is there. */
  write?(line: string): void
}

/** Bytes of one field; what is longer is cut, so that no value can fill a disk by itself. */
const longestField = 8 * 1024

/** A logger for the whole program. Field names are those of pino: `level`, `time`, `msg`. */
export function createLogger({ level = 'info', pretty = false, write = writeToStderr }: LogOptions = {}): Logger {
  const format = pretty ? prettyLine : jsonLine
  const threshold = levels[level]
  const at = (base: LogFields): Logger => {
    const line = (of: LogLevel, message: string, fields?: LogFields): void => {
      if (levels[of] >= threshold) write(format(of, message, { ...base, ...fields }))
    }
    return {
      debug: (message, fields) => line('debug', message, fields),
      info: (message, fields) => line('info', message, fields),
      warn: (message, fields) => line('warn', message, fields),
      error: (message, fields) => line('error', message, fields),
      child: (fields) => at({ ...base, ...fields })
    }
  }
  return at({})
}

/** Writes nothing: for tests and programs that embed a gateway. */
export const silentLog: Logger = { debug() {}, info() {}, warn() {}, error() {}, child: () => silentLog }

function jsonLine(level: LogLevel, message: string, fields: LogFields): string {
  return `${JSON.stringify({ level, time: new Date().toISOString(), msg: message, ...fields }, plain)}\n`
}

const colours = { debug: 'gray', info: 'cyan', warn: 'yellow', error: 'red' } as const

function prettyLine(level: LogLevel, message: string, fields: LogFields): string {
  const rest = Object.entries(fields).map(([name, value]) => ` ${styleText('gray', `${name}=`)}${typeof value === 'string' ? value : JSON.stringify(value, plain)}`)
  return `${new Date().toISOString().slice(11, 23)} ${styleText(colours[level], level.padEnd(5))} ${message}${rest.join('')}\n`
}

/** BigInt has no JSON form, errors show their message, and long text is cut. */
function plain(_name: string, value: unknown): unknown {
  if (typeof value === 'bigint') return value.toString()
  if (value instanceof Error) return value.message
  return typeof value === 'string' && value.length > longestField ? `${value.slice(0, longestField)}…` : value
}

function writeToStderr(line: string): void {
  try {
    writeSync(2, line)
  } catch {
    // A full or closed pipe must not take the program down; operational lines are few and can be lost.
  }
}
