// Reads the values of an option that takes a list.

/** The rule, for the help. */
export const listRule = String.raw`In a list, \, is a comma that belongs to a value, and \\ is a backslash.`

/** The values of a list, as the commas separate them: `a,b\,c` has `a` and `b,c`. An empty text has one empty value. */
export function valuesOf(text: string): string[] {
  const values = text.match(/(?<=^|,)(?:\\[^]|[^\\,]|\\$)*/g)!
  return values.map((value) => value.replace(/\\([\\,])/g, '$1'))
}
