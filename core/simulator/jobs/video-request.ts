// Reads and checks requests for videos, as a form or JSON.
import type { Call } from '../endpoint.ts'
import { typedFields } from '../body.ts'
import { takeDirective } from '../directive.ts'
import type { Directive } from '../directive.ts'
import { integer, invalid, isString, missing, optional, parseObject } from '../fields.ts'
import type { Fields } from '../fields.ts'
import { readModel } from '../openai/models.ts'
import type { VideoPlan } from './job.ts'

const defaultModel = 'sora-2'
const defaultSeconds = 4
const mostSeconds = 60
const mostPixels = 4096

/** A request that passed the checks. */
export interface VideoRequest {
  model: string
  directive: Directive
  plan: VideoPlan
}

/** @throws Refusal */
export function readVideoRequest(call: Call, remixedFrom?: string): VideoRequest {
  const body = call.form ? typedFields(call.form, { numbers: ['width', 'height'], flags: [] }) : parseObject(call.body)
  const model = readModel(call, { model: defaultModel, ...body })
  const text = optional(body, 'prompt', isString, 'a string')
  if (text === undefined || text === '') throw missing('prompt')
  const { directive, prompt } = takeDirective(text, model, 'prompt')
  const [width, height] = readSize(body)
  return { model, directive, plan: { kind: 'video', prompt, seconds: readSeconds(body), width, height, remixedFrom } }
}

/** Reads the length: a number or a string of digits, as `seconds` or `duration`. */
function readSeconds(body: Fields): number {
  const name = body['seconds'] === undefined ? 'duration' : 'seconds'
  const given = body[name] ?? defaultSeconds
  const seconds = isString(given) && /^\d{1,3}$/.test(given) ? Number(given) : given
  if (!integer(1, mostSeconds)(seconds)) throw invalid(name, `Expected an integer from 1 to ${mostSeconds}.`)
  return seconds
}

function readSize(body: Fields): [width: number, height: number] {
  const side = integer(1, mostPixels)
  const [width, height] = [
    optional(body, 'width', side, `at most ${mostPixels}`),
    optional(body, 'height', side, `at most ${mostPixels}`)
  ]
  if (width !== undefined && height !== undefined) return [width, height]
  const size = optional(body, 'size', isString, 'a string') ?? '720x1280'
  const sides = /^(\d{1,4})x(\d{1,4})$/.exec(size)?.slice(1).map(Number) ?? []
  if (sides.length === 2 && sides.every(side)) return sides as [number, number]
  throw invalid('size', `Expected WIDTHxHEIGHT of at most ${mostPixels} each.`)
}
