// The microphone and the loudspeaker of a session: samples of 16 bits at 24 kHz, as base64.
import { base64Of } from '../composer.ts'

const rate = 24_000
/** The most seconds of sound that wait to be played. */
const longest = 120

/** A microphone that is open. */
export interface Microphone {
  close(): void
}

/**
 * Opens the microphone, and gives what it hears to `take`, ten times a second.
 * @throws Error in words for people, when there is none, or the browser does not allow it
 */
export async function openMicrophone(take: (data: string) => void): Promise<Microphone> {
  // Pages of plain http beyond loopback have no microphone.
  const devices = (navigator as { mediaDevices?: MediaDevices }).mediaDevices
  if (!devices) throw new Error('This page has no microphone: it needs https, or a loopback address.')
  const stream = await devices
    .getUserMedia({ audio: { channelCount: 1, echoCancellation: true } })
    .catch((error: Error) => {
      throw new Error(`The microphone cannot be used: ${error.message}.`)
    })
  const context = new AudioContext({ sampleRate: rate })
  const close = (): void => {
    for (const track of stream.getTracks()) track.stop()
    void context.close()
  }
  try {
    await context.audioWorklet.addModule('/console/app/pages/playground/realtime/microphone-worker.ts')
    const node = new AudioWorkletNode(context, 'listener', { numberOfOutputs: 0 })
    node.port.onmessage = ({ data }: MessageEvent<Float32Array>) => take(encode(data))
    context.createMediaStreamSource(stream).connect(node)
  } catch (error) {
    close()
    throw error
  }
  return { close }
}

function encode(samples: Float32Array): string {
  const view = new DataView(new ArrayBuffer(samples.length * 2))
  samples.forEach((sample, at) => view.setInt16(at * 2, Math.max(-1, Math.min(1, sample)) * 0x7fff, true))
  return base64Of(new Uint8Array(view.buffer))
}

/** Plays pieces of sound one after the other. */
export class Loudspeaker {
  readonly #context = new AudioContext({ sampleRate: rate })
  #until = 0

  /** Plays a piece when those before it have ended. */
  play(data: string): void {
    const text = atob(data)
    const length = Math.floor(text.length / 2)
    const context = this.#context
    if (length === 0 || this.#until - context.currentTime > longest) return
    const buffer = context.createBuffer(1, length, rate)
    const samples = buffer.getChannelData(0)
    for (let at = 0; at < length; at++)
      samples[at] = (((text.charCodeAt(2 * at) | (text.charCodeAt(2 * at + 1) << 8)) << 16) >> 16) / 0x8000
    const source = context.createBufferSource()
    source.buffer = buffer
    source.connect(context.destination)
    this.#until = Math.max(this.#until, context.currentTime + 0.05)
    source.start(this.#until)
    this.#until += buffer.duration
  }

  close(): void {
    void this.#context.close()
  }
}
