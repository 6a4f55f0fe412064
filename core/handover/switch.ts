// Services whose implementation can be replaced while everybody has a reference to them.

/** Something that everybody can hold, and what does its work at present. */
export interface Switch<T extends object> {
  readonly face: T
  use(next: T): void
}

/** The names of all methods and properties of a service. The compiler refuses a list that lacks one. */
export type Names<T> = { readonly [name in keyof T & string]-?: true }

/** Makes a face of a service: its methods and properties are those of the implementation in use. */
export function switchable<T extends object>(first: T, names: Names<T>): Switch<T> {
  let present = first
  const face = {}
  for (const name of Object.keys(names) as (keyof T & string)[]) {
    const call = (...args: unknown[]): unknown => (present[name] as (...args: unknown[]) => unknown)(...args)
    const get = typeof first[name] === 'function' ? () => call : () => present[name]
    Object.defineProperty(face, name, { get, enumerable: true })
  }
  return { face: face as T, use: (next) => void (present = next) }
}
