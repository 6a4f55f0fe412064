// The way of records from one worker to the journal's thread: a ring of bytes in shared memory, which one thread writes
// and one reads.

/**
 * The words of a ring, before its bytes. Positions count units of 64 bits, and go on from the largest to the
 * least. Failures count how often those who wait were to be told of one. `crowded`: the writer waits for room.
 */
const [marked, size, written, taken, kept, news, refusing, failures, crowded] = [0, 1, 2, 3, 4, 5, 6, 7, 8]
const headWords = 16
const magic = 0x5c1ce002

/** The length of a piece in bytes, and whether it is the last one of its record, stand in a unit before it. */
const pieceUnits = 1
const isLast = 1

/** The largest piece, as a part of the ring: so a large record goes on while its beginning is read. */
const pieceShare = 4

/** Makes a ring for about so many bytes. Its memory is taken as it is first written. */
export function createRing(bytes: number): SharedArrayBuffer {
  const units = 2 ** Math.ceil(Math.log2(Math.max(64, bytes / 8)))
  const buffer = new SharedArrayBuffer(headWords * 4 + units * 8)
  new Int32Array(buffer).set([magic, units])
  return buffer
}

/** The words of a bell: how often it was rung, and whether somebody waits for that. */
const [rings, awaited] = [0, 1]

/** Makes the bell that writers ring, whichever ring they have. To wake a thread costs more than a record does. */
export function createBell(): SharedArrayBuffer {
  return new SharedArrayBuffer(8)
}

class Ring {
  readonly words: Int32Array
  readonly bytes: Uint8Array
  /** In units. */
  readonly size: number

  constructor(buffer: SharedArrayBuffer) {
    this.words = new Int32Array(buffer)
    if (this.words[marked] !== magic) throw new Error('this is no ring: make one with createRing')
    this.size = this.words[size]!
    this.bytes = new Uint8Array(buffer, headWords * 4)
  }

  /** The byte at which a position lies. */
  byteAt(position: number): number {
    return (position & (this.size - 1)) * 8
  }
}

interface Sent {
  readonly bytes: Uint8Array
  readonly done: PromiseWithResolvers<void>
  /** How many of its bytes are in the ring. */
  given: number
  /** The position behind it, when all of them are. */
  end: number
}

/** The worker's end. */
export class RingWriter {
  readonly #ring: Ring
  readonly #bell: Int32Array
  /** The records that are not wholly in the ring. */
  readonly #queue: Sent[] = []
  /** Those that are, and are not acknowledged. */
  readonly #away: Sent[] = []
  #waitingBytes = 0
  #listens = false
  #failures = 0
  /**
   * Called when the journal could not be written for so long that those who wait are to be told. What was sent is
   * written nevertheless, when it can be.
   */
  onFailure: () => void = () => {}

  constructor(ring: SharedArrayBuffer, bell: SharedArrayBuffer) {
    this.#ring = new Ring(ring)
    this.#bell = new Int32Array(bell)
  }

  /** The bytes that found no room in the ring yet. Who sends more while they are many fills the memory. */
  get waitingBytes(): number {
    return this.#waitingBytes
  }

  /** Whether the journal takes nothing for new requests at present. */
  get refuses(): boolean {
    return Atomics.load(this.#ring.words, refusing) !== 0
  }

  /**
   * Sends a record, which belongs to the ring from now on. It is read whole or not at all. Resolves when it is
   * acknowledged, and stays open for as long as nobody does that. It keeps no event loop running.
   */
  send(bytes: Uint8Array): Promise<void> {
    const sent = { bytes, done: Promise.withResolvers<void>(), given: 0, end: 0 }
    this.#queue.push(sent)
    this.#waitingBytes += bytes.length
    this.#fill()
    if (!this.#listens) void this.#listen()
    return sent.done.promise
  }

  async #listen(): Promise<void> {
    const { words } = this.#ring
    this.#listens = true
    // A failure while nobody waited is over, or will be told again.
    this.#failures = Atomics.load(words, failures)
    for (;;) {
      const heard = Atomics.load(words, news)
      this.#settle()
      this.#fill()
      if (this.#queue.length === 0 && this.#away.length === 0) break
      this.#hear()
      const next = Atomics.waitAsync(words, news, heard)
      if (next.async) await next.value
    }
    this.#listens = false
  }

  #settle(): void {
    const until = Atomics.load(this.#ring.words, kept)
    while (this.#away.length > 0 && ((until - this.#away[0]!.end) | 0) >= 0) this.#away.shift()!.done.resolve()
  }

  #hear(): void {
    const count = Atomics.load(this.#ring.words, failures)
    if (count === this.#failures) return
    this.#failures = count
    this.onFailure()
  }

  #fill(): void {
    const { words } = this.#ring
    const before = words[written]!
    while (this.#queue.length > 0 && this.#piece(this.#queue[0]!)) {
      const sent = this.#queue[0]!
      if (sent.given < sent.bytes.length) continue
      sent.end = words[written]!
      this.#away.push(sent)
      this.#queue.shift()
    }
    if (words[written] === before) return
    Atomics.add(this.#bell, rings, 1)
    // The reader takes it back, as this thread may end before the next line: others ring then.
    if (Atomics.load(this.#bell, awaited) !== 0) Atomics.notify(this.#bell, rings)
  }

  /** Writes the next piece of a record, if there is room. */
  #piece(sent: Sent): boolean {
    const { words, bytes, size: units } = this.#ring
    const position = words[written]!
    const left = sent.bytes.length - sent.given
    const most = Math.min(left, (units / pieceShare - pieceUnits) * 8)
    const needed = pieceUnits + Math.ceil(most / 8)
    const hasRoom = (): boolean => units - ((position - Atomics.load(words, taken)) | 0) >= needed
    if (!hasRoom()) {
      // Looked at once more, as the reader may have made room before it could see that somebody waits.
      Atomics.store(words, crowded, 1)
      if (!hasRoom()) return false
    }
    const head = headWords + this.#ring.byteAt(position) / 4
    words[head] = most
    words[head + 1] = most === left ? isLast : 0
    const at = this.#ring.byteAt(position + pieceUnits)
    const first = Math.min(most, bytes.length - at)
    bytes.set(sent.bytes.subarray(sent.given, sent.given + first), at)
    bytes.set(sent.bytes.subarray(sent.given + first, sent.given + most), 0)
    // From here on the piece is there. Whoever ends before this line has written nothing.
    Atomics.store(words, written, (position + needed) | 0)
    sent.given += most
    this.#waitingBytes -= most
    return true
  }
}

/** The journal's end. */
export class RingReader {
  readonly #ring: Ring
  /** The pieces of a record whose last one has not come. */
  #pieces: Uint8Array[] = []
  #position: number

  constructor(ring: SharedArrayBuffer) {
    this.#ring = new Ring(ring)
    this.#position = this.#ring.words[taken]!
  }

  /** Behind the last record that was taken. */
  get position(): number {
    return this.#position
  }

  /** Takes the records that are whole, in order, and makes room for others. */
  take(): Uint8Array[] {
    const { words } = this.#ring
    const until = Atomics.load(words, written)
    const records: Uint8Array[] = []
    let at = words[taken]!
    if (at === until) return records
    while (at !== until) {
      const head = headWords + this.#ring.byteAt(at) / 4
      const length = words[head]!
      this.#pieces.push(this.#copy(at + pieceUnits, length))
      const last = words[head + 1] === isLast
      at = (at + pieceUnits + Math.ceil(length / 8)) | 0
      if (!last) continue
      records.push(this.#pieces.length === 1 ? this.#pieces[0]! : Buffer.concat(this.#pieces))
      this.#pieces = []
      this.#position = at
    }
    Atomics.store(words, taken, until)
    if (Atomics.exchange(words, crowded, 0) !== 0) this.#tell()
    return records
  }

  /** Says that everything up to a {@link RingReader.position position} is on disk. */
  acknowledge(position: number): void {
    Atomics.store(this.#ring.words, kept, position)
    this.#tell()
  }

  /** Says whether the journal takes nothing for new requests at present. */
  refuse(refuses: boolean): void {
    Atomics.store(this.#ring.words, refusing, refuses ? 1 : 0)
  }

  /** Has those told who wait, as the journal cannot be written. */
  disappoint(): void {
    Atomics.add(this.#ring.words, failures, 1)
    this.#tell()
  }

  #copy(position: number, length: number): Uint8Array {
    const { bytes } = this.#ring
    const at = this.#ring.byteAt(position)
    const copy = new Uint8Array(length)
    const first = Math.min(length, bytes.length - at)
    copy.set(bytes.subarray(at, at + first))
    copy.set(bytes.subarray(0, length - first), first)
    return copy
  }

  #tell(): void {
    Atomics.add(this.#ring.words, news, 1)
    Atomics.notify(this.#ring.words, news)
  }
}

/** What one look at all rings has found. */
export interface Harvest {
  /** The records of each ring that had some, by the number of its seat. */
  readonly records: ReadonlyMap<number, readonly Uint8Array[]>
  /** Tells the writers of these records that they are on disk. */
  acknowledge(): void
}

/** All rings, as the journal's thread reads them: what is found in one look goes into one frame. */
export class Rings {
  readonly #bell: Int32Array
  readonly #readers = new Map<number, RingReader>()
  #heard = 0
  #refuses = false

  constructor(bell: SharedArrayBuffer) {
    this.#bell = new Int32Array(bell)
  }

  /** Reads the ring of a seat from now on. */
  add(seat: number, ring: SharedArrayBuffer): void {
    const reader = new RingReader(ring)
    reader.refuse(this.#refuses)
    this.#readers.set(seat, reader)
  }

  /**
   * Forgets a ring. Call it when its writer has ended, and what it had written was taken: a part of a record is lost.
   */
  remove(seat: number): void {
    this.#readers.delete(seat)
  }

  /** Takes what there is in all rings. */
  take(): Harvest {
    this.#heard = Atomics.load(this.#bell, rings)
    const records = new Map<number, readonly Uint8Array[]>()
    const ends: [reader: RingReader, position: number][] = []
    for (const [seat, reader] of this.#readers) {
      const found = reader.take()
      if (found.length === 0) continue
      records.set(seat, found)
      ends.push([reader, reader.position])
    }
    return {
      records,
      acknowledge() {
        for (const [reader, position] of ends) reader.acknowledge(position)
      }
    }
  }

  /** Resolves when something was written since the last look. It keeps no event loop running. */
  async rung(): Promise<void> {
    // Who rings before this line has changed the count already.
    Atomics.store(this.#bell, awaited, 1)
    const next = Atomics.waitAsync(this.#bell, rings, this.#heard)
    if (next.async) await next.value
    Atomics.store(this.#bell, awaited, 0)
  }

  /** Tells all writers whether the journal takes nothing for new requests at present. */
  refuse(refuses: boolean): void {
    if (refuses === this.#refuses) return
    this.#refuses = refuses
    for (const reader of this.#readers.values()) reader.refuse(refuses)
  }

  /** Has all those told who wait, as the journal cannot be written. */
  disappoint(): void {
    for (const reader of this.#readers.values()) reader.disappoint()
  }
}
