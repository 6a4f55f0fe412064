// Places in the files of a configuration, as problems name them.

/** A position in a file; both numbers begin at 1. */
export interface Position {
  /** The path as it is shown: that of the command line, or that of an included file. */
  readonly file: string
  readonly line: number
  readonly column: number
}

/** Renders a position for people: `gateway.yaml:31:5`. */
export function placeOf({ file, line, column }: Position): string {
  return `${file}:${line}:${column}`
}
