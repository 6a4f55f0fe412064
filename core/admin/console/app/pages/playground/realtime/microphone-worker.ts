// Runs in the browser's audio thread: gives what the microphone hears to the page, in pieces of 100 ms.
declare const sampleRate: number
declare function registerProcessor(name: string, processor: unknown): void
declare class AudioWorkletProcessor {
  readonly port: MessagePort
}

/** Puts the small blocks of the browser together. */
class Listener extends AudioWorkletProcessor {
  #samples = new Float32Array(Math.round(sampleRate / 10))
  #length = 0

  process([input]: readonly (readonly Float32Array[])[]): boolean {
    const channel = input?.[0]
    if (!channel) return true
    for (const sample of channel) {
      this.#samples[this.#length++] = sample
      if (this.#length < this.#samples.length) continue
      this.port.postMessage(this.#samples, [this.#samples.buffer])
      this.#samples = new Float32Array(Math.round(sampleRate / 10))
      this.#length = 0
    }
    return true
  }
}

registerProcessor('listener', Listener)
