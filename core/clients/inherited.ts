// The listening sockets that a process was started with: those that systemd holds for it, or those of the process whose
// place it takes.

/** The names of the listeners, in the order in which sockets without such names are taken. */
const listeners = ['clients', 'admin'] as const

/** The file descriptors of listening sockets, by the listener that each is for. */
export interface Sockets {
  /** Connections of clients may come on several. */
  readonly clients?: readonly number[]
  readonly admin?: number
}

/** The first descriptor that is passed (sd_listen_fds(3)). */
const firstDescriptor = 3

/**
 * Takes the sockets that `LISTEN_FDS` announces, and removes the variables, so that no child takes them for its own.
 * They are told apart by `LISTEN_FDNAMES`, and by their order where that has neither name: one for clients, and one for
 * the admin listener. Variables for another process (`LISTEN_PID`) are only removed.
 * @throws Error when it cannot be told which listener a socket is for, or the admin listener has two
 */
export function inheritedSockets(env: NodeJS.ProcessEnv = process.env): Sockets {
  const { LISTEN_FDS: announced, LISTEN_PID: owner, LISTEN_FDNAMES: named } = env
  for (const name of ['LISTEN_FDS', 'LISTEN_PID', 'LISTEN_FDNAMES']) delete env[name]
  const count = Number(announced ?? 0)
  if (!Number.isSafeInteger(count) || count < 0)
    throw new Error(`LISTEN_FDS is ${JSON.stringify(announced)}: it must be the number of the sockets that are passed`)
  if (count === 0 || (owner !== undefined && owner !== String(process.pid))) return {}
  const given = named?.split(':') ?? []
  const known = listeners.some((name) => given.includes(name))
  if (!known && count > listeners.length)
    throw new Error(
      `LISTEN_FDS passes ${count} sockets: name those for clients \`clients\` and that of the admin listener \`admin\` in LISTEN_FDNAMES`
    )
  const clients: number[] = []
  let admin: number | undefined
  for (let at = 0; at < count; at++) {
    const name = known ? given[at] : listeners[at]
    const listener = listeners.find((one) => one === name)
    if (!listener)
      throw new Error(`LISTEN_FDNAMES is ${JSON.stringify(named)}: a socket is named clients or admin, or none is`)
    const descriptor = firstDescriptor + at
    if (listener === 'clients') clients.push(descriptor)
    else if (admin === undefined) admin = descriptor
    else throw new Error(`LISTEN_FDNAMES is ${JSON.stringify(named)}: it has two sockets named admin`)
  }
  return { ...(clients.length > 0 && { clients }), ...(admin !== undefined && { admin }) }
}
