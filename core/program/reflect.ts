// Defines the three Reflect functions that tsyringe uses; imported before it. Nothing else is needed, because the
// program has no decorators.

const metadata = new WeakMap<object, Map<unknown, unknown>>()

function of(target: object): Map<unknown, unknown> {
  let values = metadata.get(target)
  if (!values) metadata.set(target, (values = new Map<unknown, unknown>()))
  return values
}

Object.assign(Reflect, {
  defineMetadata: (key: unknown, value: unknown, target: object) => void of(target).set(key, value),
  getOwnMetadata: (key: unknown, target: object) => metadata.get(target)?.get(key),
  getMetadata: (key: unknown, target: object) => metadata.get(target)?.get(key)
})
