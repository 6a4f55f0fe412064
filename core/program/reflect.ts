// The three Reflect functions that tsyringe looks for; imported before it. Decorators are not used, so nothing else is
// needed.

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
