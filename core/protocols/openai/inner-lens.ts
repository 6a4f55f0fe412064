// Looks into an object that stands in an object.
import { Lens, LensError } from '../../bodies/lens.ts'

/** The members of a member; undefined when that is no object, or one that cannot be looked into. */
export function innerLens(outer: Lens, key: string): Lens | undefined {
  if (outer.type(key) !== 'object') return undefined
  try {
    return new Lens(outer.slice(key)!)
  } catch (error) {
    if (error instanceof LensError) return undefined
    throw error
  }
}
