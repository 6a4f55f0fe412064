// Operational logging: JSON lines with a level, a phrase and fields.

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
