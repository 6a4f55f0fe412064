// Statements of tests in PostgreSQL, on connections that are kept: to make one costs the server 3 to 7 ms of CPU time.
import pg from 'pg'

/** How many connections are kept, those of the last statements: tests count what a server has, and crowd it. */
const most = 2

/** A connection, with what its types leave out: whether it keeps a process from ending. */
interface Connection extends pg.Client {
  ref(): void
  unref(): void
}

/** A connection that waits for a statement. */
interface Kept {
  readonly url: string
  readonly client: Connection
}

/** Runs statements, each on a connection that no other uses meanwhile. */
export class Administrator {
  /** The one that was used last is the last. */
  #kept: Kept[] = []

  /**
   * Runs statements in the database of a URL, and gives the rows where it is one.
   * @throws Error when they fail, or nothing can be reached
   */
  async query(text: string, url: string, values?: unknown[]): Promise<any[]> {
    const client = (await this.#takeKept(url)) ?? (await this.#connect(url))
    let over = false
    try {
      const { rows } = await client.query(text, values)
      over = client.getTransactionStatus() === 'I'
      return rows
    } finally {
      // What statements have left open, such as a transaction, ends with its connection.
      if (over) this.#keep({ url, client })
      else void client.end()
    }
  }

  /** A connection that still lives: a test may have ended it, or the server, and nothing was heard of that. */
  async #takeKept(url: string): Promise<Connection | undefined> {
    for (;;) {
      const place = this.#kept.findLastIndex((one) => one.url === url)
      if (place < 0) return undefined
      const [{ client }] = this.#kept.splice(place, 1) as [Kept]
      client.ref()
      const lives = await client.query('').then(
        () => true,
        () => false
      )
      if (lives) return client
      void client.end()
    }
  }

  #keep(one: Kept): void {
    // A file of tests ends with it.
    one.client.unref()
    this.#kept.push(one)
    if (this.#kept.length > most) void this.#kept.shift()!.client.end()
  }

  async #connect(url: string): Promise<Connection> {
    const { searchParams, pathname } = new URL(url)
    const client = new pg.Client({
      host: searchParams.get('host')!,
      port: 5432,
      user: 'sluice',
      database: pathname.slice(1)
    }) as Connection
    client.on('error', () => {})
    client.once('end', () => (this.#kept = this.#kept.filter((one) => one.client !== client)))
    await client.connect()
    return client
  }
}
