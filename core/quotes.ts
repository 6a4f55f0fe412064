// Finds the end of long JSON strings: a few lines of WebAssembly that look at thirty-two bytes at a time.

/**
 * `find(at, end)` of the module below, as it reads in the text format:
 *
 *     (loop $next
 *       (if (i32.ge_u at end) (return end))
 *       (local.set $mask (i32.or
 *         (i8x16.bitmask (i8x16.eq (v128.load at) (i8x16.splat '"')))
 *         (i32.shl (i8x16.bitmask (i8x16.eq (v128.load offset=16 at) (i8x16.splat '"'))) 16)))
 *       (block $none (loop $quote
 *         (br_if $none (i32.eqz $mask))
 *         (local.set $place (i32.add at (i32.ctz $mask)))
 *         (if (i32.ge_u $place end) (return end))
 *         (local.set $before (i32.load16_u (i32.sub $place 2)))
 *         (if (i32.or (i32.ne (i32.shr_u $before 8) '\') (i32.eq (i32.and $before 255) '\')) (return $place))
 *         (local.set $mask (i32.and $mask (i32.sub $mask 1)))
 *         (br $quote)))
 *       (local.set at (i32.add at 32))
 *       (br $next))
 */
const code = [
  0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00,
  // One type: (i32, i32) -> i32. One function of it. One page of memory, no more. Both are exported.
  0x01, 0x07, 0x01, 0x60, 0x02, 0x7f, 0x7f, 0x01, 0x7f,
  0x03, 0x02, 0x01, 0x00,
  0x05, 0x04, 0x01, 0x01, 0x01, 0x01,
  0x07, 0x11, 0x02, 0x06, 0x6d, 0x65, 0x6d, 0x6f, 0x72, 0x79, 0x02, 0x00, 0x04, 0x66, 0x69, 0x6e, 0x64, 0x00, 0x00,
  // The function: at = 0, end = 1, $mask = 2, $place = 3, $before = 4.
  0x0a, 0xa7, 0x01, 0x01, 0xa4, 0x01, 0x01, 0x03, 0x7f,
  0x03, 0x40,
  0x20, 0x00, 0x20, 0x01, 0x4f, 0x04, 0x40, 0x20, 0x01, 0x0f, 0x0b,
  0x20, 0x00, 0xfd, 0x00, 0x00, 0x00,
  0xfd, 0x0c, ...Array<number>(16).fill(0x22),
  0xfd, 0x23, 0xfd, 0x64,
  0x20, 0x00, 0xfd, 0x00, 0x00, 0x10,
  0xfd, 0x0c, ...Array<number>(16).fill(0x22),
  0xfd, 0x23, 0xfd, 0x64,
  0x41, 0x10, 0x74, 0x72, 0x21, 0x02,
  0x02, 0x40, 0x03, 0x40,
  0x20, 0x02, 0x45, 0x0d, 0x01,
  0x20, 0x00, 0x20, 0x02, 0x68, 0x6a, 0x22, 0x03,
  0x20, 0x01, 0x4f, 0x04, 0x40, 0x20, 0x01, 0x0f, 0x0b,
  0x20, 0x03, 0x41, 0x02, 0x6b, 0x2f, 0x00, 0x00, 0x22, 0x04,
  0x41, 0x08, 0x76, 0x41, 0xdc, 0x00, 0x47,
  0x20, 0x04, 0x41, 0xff, 0x01, 0x71, 0x41, 0xdc, 0x00, 0x46,
  0x72, 0x04, 0x40, 0x20, 0x03, 0x0f, 0x0b,
  0x20, 0x02, 0x20, 0x02, 0x41, 0x01, 0x6b, 0x71, 0x21, 0x02, 0x0c, 0x00,
  0x0b, 0x0b,
  0x20, 0x00, 0x41, 0x20, 0x6a, 0x21, 0x00, 0x0c, 0x00,
  0x0b, 0x00, 0x0b
]

const quote = 0x22
/** Bytes that are looked at in one go. */
const stretch = 32 * 1024
/** Where they lie in the module's memory: room before them for what precedes the first, and behind them for the last look. */
const start = 16

/** Part of Node, and not of the types that come with it. */
declare const WebAssembly: {
  Module: new (code: Uint8Array) => object
  Instance: new (module: object) => { exports: { find(at: number, end: number): number; memory: { buffer: ArrayBuffer } } }
}

const { find, memory } = new WebAssembly.Instance(new WebAssembly.Module(new Uint8Array(code))).exports
const seen = new Uint8Array(memory.buffer)

/**
 * Looks for quotes in one buffer, from left to right. What it looks at is copied in stretches to the module's memory, which
 * all finders share: one has to be done with before another is begun.
 */
export class QuoteFinder {
  readonly #bytes: Buffer
  /** The stretch that is in memory. */
  #from = 0
  #to = 0

  constructor(bytes: Buffer) {
    this.#bytes = bytes
  }

  /**
   * The position of the first quote from `at` on, which must be above 1; -1 when there is none. Most of those behind a single
   * backslash are passed over; one that is returned may be escaped or not.
   */
  next(at: number): number {
    if (at >= this.#to || at < this.#from) this.#load(at)
    const end = start + this.#to - this.#from
    const found = find(start + at - this.#from, end)
    if (found < end) return this.#from + found - start
    // Whatever goes on so long without one, as an image does, is native code's to search.
    return this.#bytes.indexOf(quote, this.#to)
  }

  #load(from: number): void {
    this.#from = from
    this.#to = Math.min(from + stretch, this.#bytes.length)
    seen.set(this.#bytes.subarray(from - 2, this.#to), start - 2)
  }
}
