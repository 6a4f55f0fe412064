// The routes of the files of the configuration: their schema, their texts without secrets, a check of other texts, and
// writing them, where the file allows it.
import { resolve } from 'node:path'
import { GatewayError } from '../../errors.ts'
import { NotWritten } from '../../program/config-file.ts'
import type { NewText } from '../../program/config-file.ts'
import { inWords } from '../../program/changes.ts'
import { ReplacementRefused } from '../../program/replacement.ts'
import type { AdminParts, Answer, Call, Route } from '../api/contract.ts'
import { conflict, readEntry } from '../api/entry.ts'
import { anything, count, flag, listOf, mapOf, nullable, object, said, text } from '../api/shape.ts'
import { notWritten, problems, written } from '../api/shapes.ts'
import { reloadEntry, showReload } from './config.ts'

const texts = {
  type: 'array',
  minItems: 1,
  description: 'The texts, each for one of the files; the other files stay as they are.',
  items: {
    type: 'object',
    description: 'One file.',
    required: ['name', 'text'],
    properties: {
      name: { type: 'string', minLength: 1, description: 'Its name, as the list of the files has it.' },
      text: { type: 'string', description: 'All of its text.' }
    }
  }
} as const
const checkFields = { files: texts } as const
const writeFields = {
  files: texts,
  hash: {
    type: 'string',
    pattern: '^[0-9a-f]{64}$',
    patternErrorMessage: 'the hash that was read with the files: 64 hexadecimal digits',
    description: 'That which was read with the files: what was changed since is not overwritten.'
  }
} as const
const example = '{"files": [{"name": "gateway.yaml", "text": "…"}]}'
/** Bytes of a body: a file has a MiB at most, which JSON makes somewhat longer. */
const largest = 3 * 1024 * 1024

/** Shows the files on disk, which need not be those in use. */
async function showFiles({ by }: Call, { configFile, generations, settings }: AdminParts): Promise<Answer> {
  const { hash, files, problems: found } = await configFile.show()
  const masked = files.filter((one) => one.masked > 0).map(({ name }) => name)
  const why = !settings.write_config
    ? 'admin.write_config of gateway.yaml is false: files are written by hand alone'
    : by.role !== 'owner'
      ? `the role ${by.role} may not write them: it takes owner`
      : found.length > 0
        ? 'the files on disk have problems: mend them by hand'
        : null
  return {
    json: {
      hash,
      in_use: generations.current.config.hash,
      writable: why === null && masked.length < files.length,
      why: why ?? (masked.length > 0 ? `${masked.join(', ')}: write \${NAME} in the place of secrets first` : null),
      files: files.map(({ name, file, text, masked: secrets }) => ({
        name,
        file: resolve(file),
        text,
        masked: secrets
      })),
      problems: found
    }
  }
}

/** Checks texts in the place of files: nothing is written. */
async function checkFiles({ json }: Call, { configFile }: AdminParts): Promise<Answer> {
  const { files } = readEntry(checkFields, ['files'], await json(), example).value
  const { hash, problems: found, warnings, changes } = await configFile.check(distinct(files)).catch(refused)
  return { json: { ok: found.length === 0, hash, problems: found, warnings, changes } }
}

/** Writes texts over files and reloads them; 422 with every problem when they cannot be used: nothing has changed. */
async function writeFiles({ by, json }: Call, parts: AdminParts): Promise<Answer> {
  const { files, hash } = readEntry(writeFields, ['files', 'hash'], await json(), example).value
  if (!parts.settings.write_config)
    throw new GatewayError(
      'endpoint_not_allowed',
      'admin.write_config of gateway.yaml is false: write files by hand.',
      {
        shownCode: 'config_write_off'
      }
    )
  const { config } = parts.generations.current
  const result = await parts.configFile.write(distinct(files), hash, by.id).catch((error: unknown) => {
    if (error instanceof NotWritten && error.code === 'config_problems') return error
    return refused(error)
  })
  if (result instanceof NotWritten) {
    const { code, message, problems: found } = result
    return { status: 422, json: { error: { type: 'invalid_request_error', message, code }, problems: found } }
  }
  const replaced = result.files.map(({ file, done, aside }) => ({
    file: resolve(file),
    done,
    aside: aside && resolve(aside)
  }))
  const entry = reloadEntry(by, config.file, config.hash, result)
  const after = {
    ...(entry['after'] as object),
    files: files.map(({ name }) => name),
    changes: inWords(result.changes)
  }
  await parts.store.documents.change([], { ...entry, action: 'config.write', after }).catch((error: Error) => {
    parts.log.error('a file that was written was not noted in the audit log', { error: error.message })
  })
  return showReload(result, { file: resolve(config.file), files: replaced })
}

function distinct(files: readonly NewText[]): readonly NewText[] {
  if (new Set(files.map(({ name }) => name)).size === files.length) return files
  throw new GatewayError('invalid_field', 'files has a name twice: keep one.', { param: 'files' })
}

function refused(error: unknown): never {
  if (error instanceof ReplacementRefused) throw conflict('config_not_replaced', error.message, 'files')
  if (!(error instanceof NotWritten)) throw error
  const { code, message } = error
  if (code === 'config_unknown_file')
    throw new GatewayError('invalid_field', message, { param: 'files', shownCode: code })
  throw conflict(code, message, code === 'config_changed' ? 'hash' : 'files')
}

/** The routes. */
export const configFileRoutes: readonly Route[] = [
  {
    method: 'GET',
    path: '/admin/v1/config/schema',
    summary: 'Shows the JSON Schema of gateway.yaml',
    access: { needs: 'see' },
    query: [],
    answers: { 200: mapOf(anything) },
    handle: (_call, { configFile }) => ({ json: configFile.schema() })
  },
  {
    method: 'GET',
    path: '/admin/v1/config/file',
    summary: 'Shows the files of the configuration as they are written, without secrets',
    access: { needs: 'operate' },
    query: [],
    answers: {
      200: object({
        hash: said(nullable(text), 'Of the files on disk; to be named again where they are written.'),
        in_use: text,
        writable: flag,
        why: said(nullable(text), 'Why all or some may not be written.'),
        files: listOf(object({ name: text, file: text, text, masked: said(count, 'Secrets that are not shown.') })),
        problems: said(problems, 'Files with problems are not shown: what of them is secret is not known.')
      })
    },
    handle: showFiles
  },
  {
    method: 'POST',
    path: '/admin/v1/config/check',
    summary: 'Says what is wrong with texts of these files, and what they would change',
    access: { needs: 'operate' },
    query: [],
    body: { fields: checkFields, required: ['files'] },
    largest,
    answers: { 200: object({ ok: flag, hash: nullable(text), problems, warnings: problems, changes: listOf(text) }) },
    handle: checkFiles
  },
  {
    method: 'PUT',
    path: '/admin/v1/config/file',
    summary: 'Writes texts over files of the configuration, and reloads them',
    access: { needs: 'own' },
    query: [],
    body: { fields: writeFields, required: ['files', 'hash'] },
    largest,
    answers: { 200: written, 422: notWritten },
    handle: writeFiles
  }
]
