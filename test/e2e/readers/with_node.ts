// Reads forms as Node's servers do.
import { Readable } from 'node:stream'
import busboy from 'busboy'
import { Response } from 'undici'
import type { Field, Seen } from './readers.ts'

/** It has no types of its own. */
const { default: multer } = (await import('multer' as string)) as { default: () => { any(): Middleware } }
type Middleware = (request: object, response: object, next: (error?: unknown) => void) => void

type Read = (type: string, body: Buffer) => Promise<Field[]>

const withBusboy: Read = (type, body) =>
  new Promise((resolve, reject) => {
    const fields: Field[] = []
    const parser = busboy({ headers: { 'content-type': type }, defParamCharset: 'utf8' })
    parser.on('field', (name, value) => fields.push([name, value]))
    parser.on('file', (_name, stream) => stream.on('error', () => {}).resume())
    parser.on('error', reject)
    parser.on('close', () => resolve(fields))
    parser.end(body)
  })

const withMulter: Read = (type, body) =>
  new Promise((resolve, reject) => {
    const headers = { 'content-type': type, 'content-length': String(body.length) }
    const request = Object.assign(Readable.from([body]), { headers, body: {} as Record<string, unknown> })
    const done = (error?: unknown): void => {
      if (error) return reject(error)
      const values = ([name, value]: [string, unknown]): Field[] =>
        typeof value === 'string' ? [[name, value]] : [[name, JSON.stringify(value)]]
      resolve(Object.entries(request.body).flatMap(values))
    }
    multer().any()(request, {}, done)
  })

const withUndici: Read = async (type, body) => {
  const form = await new Response(body, { headers: { 'content-type': type } }).formData()
  return [...form].flatMap(([name, value]): Field[] => (typeof value === 'string' ? [[name, value]] : []))
}

const readers: Record<string, Read> = { busboy: withBusboy, multer: withMulter, undici: withUndici }

/** What each of them takes for the fields of a form. */
export async function seenByNode(type: string, body: Buffer): Promise<Seen> {
  const seen: Seen = {}
  for (const [reader, read] of Object.entries(readers)) seen[reader] = await read(type, body).catch(() => null)
  return seen
}
