// Writes the table of finish reasons for the docs, in Markdown.
import { anthropicWords, bedrockWords, chatWords, geminiWords, responsesWords } from '../canonical/finish-words.ts'
import type { FinishFate, FinishWords } from '../canonical/finish-words.ts'

/** How the table describes each meaning. */
const meanings: Readonly<Record<FinishFate, string>> = {
  stop: 'a normal end',
  sequence: 'a stop sequence',
  tool_calls: 'calls',
  length: 'cut by its length',
  content_filter: 'refused or filtered',
  pause: 'a pause',
  other: 'not whole, by its own name',
  failed: 'an error: another channel, or the end of the stream'
}

/** The table, with a row for each vendor and meaning. */
export function finishTable(): string {
  const vendors = new Set<FinishWords>([
    ...chatWords,
    ...responsesWords,
    ...anthropicWords,
    ...geminiWords,
    ...bedrockWords
  ])
  return ['| Vendor | Words | What becomes of them |', '|---|---|---|', ...[...vendors].flatMap(rowsOf), ''].join('\n')
}

function rowsOf({ vendor, source, words }: FinishWords): string[] {
  const fates = new Map<FinishFate, string[]>()
  for (const [word, fate] of Object.entries(words)) fates.set(fate, [...(fates.get(fate) ?? []), `\`${word}\``])
  return [...fates].map(([fate, said]) => `| [${vendor}](${source}) | ${said.join(', ')} | ${meanings[fate]} |`)
}
