// Draws the Markdown of models as elements. Nothing in it is read as HTML, links lead to https alone, and pictures are
// shown as their addresses: an answer must not make the browser ask anybody for anything.
import { html } from '../../html.ts'
import type { ComponentChildren, VNode } from '../../html.ts'
import { visible } from '../../parts/text.ts'

/** Draws a text that a model wrote. */
export function Markdown({ text }: { text: string }): VNode {
  return html`<div class="markdown">${blocksOf(visible(text))}</div>`
}

/** Headings, lists, quotes, tables of code and paragraphs, one after the other. */
function blocksOf(text: string): VNode[] {
  const lines = text.split('\n')
  const blocks: VNode[] = []
  for (let at = 0; at < lines.length;) {
    const line = lines[at]!
    const fence = /^\s*(```+|~~~+)(.*)$/.exec(line)
    if (fence) {
      const end = lines.findIndex((one, place) => place > at && one.trim().startsWith(fence[1]!))
      const code = lines.slice(at + 1, end === -1 ? undefined : end).join('\n')
      blocks.push(
        html`<pre class="code" tabindex="0" role="region" aria-label=${`Code ${fence[2]!.trim()}`.trim()}>${code}</pre>`
      )
      at = end === -1 ? lines.length : end + 1
      continue
    }
    const kind = kindOf(line)
    let end = at + 1
    if (kind !== 'heading' && kind !== 'rule')
      while (end < lines.length && kindOf(lines[end]!) === kind && !/^\s*(?:```|~~~)/.test(lines[end]!)) end++
    const run = lines.slice(at, end)
    if (kind !== 'empty') blocks.push(blockOf(kind, run))
    at = end
  }
  return blocks
}

type Kind = 'empty' | 'heading' | 'rule' | 'bullets' | 'numbers' | 'quote' | 'table' | 'paragraph'

function kindOf(line: string): Kind {
  if (line.trim() === '') return 'empty'
  if (/^#{1,6}\s/.test(line)) return 'heading'
  if (/^\s*(?:-{3,}|\*{3,}|_{3,})\s*$/.test(line)) return 'rule'
  if (/^\s*[-*+]\s/.test(line)) return 'bullets'
  if (/^\s*\d+[.)]\s/.test(line)) return 'numbers'
  if (/^\s*>/.test(line)) return 'quote'
  if (/^\s*\|.*\|\s*$/.test(line)) return 'table'
  return 'paragraph'
}

function blockOf(kind: Kind, lines: readonly string[]): VNode {
  switch (kind) {
    case 'heading':
      return html`<p class="heading"><b>${inline(lines[0]!.replace(/^#+\s+/, ''))}</b></p>`
    case 'rule':
      return html`<hr />`
    case 'bullets':
      return html`<ul>
        ${lines.map((line) => html`<li>${inline(line.replace(/^\s*[-*+]\s+/, ''))}</li>`)}
      </ul>`
    case 'numbers':
      return html`<ol start=${Number.parseInt(lines[0]!, 10)}>
        ${lines.map((line) => html`<li>${inline(line.replace(/^\s*\d+[.)]\s+/, ''))}</li>`)}
      </ol>`
    case 'quote':
      return html`<blockquote>${inline(lines.map((line) => line.replace(/^\s*>\s?/, '')).join('\n'))}</blockquote>`
    case 'table':
      return html`<pre class="code" tabindex="0" role="region" aria-label="Table">${lines.join('\n')}</pre>`
    default:
      return html`<p class="said">${inline(lines.join('\n'))}</p>`
  }
}

/** Code, links, bold and italics. The first that begins is taken; what follows it is looked at anew. */
const marks =
  /`([^`\n]+)`|(!?)\[([^\]\n]*)\]\((\S+?)(?:\s+"[^"]*")?\)|\*\*([^*\n]+)\*\*|__([^_\n]+)__|\*([^*\s][^*\n]*)\*|\b_([^_\n]+)_\b/g

function inline(text: string): ComponentChildren[] {
  const pieces: ComponentChildren[] = []
  let from = 0
  for (const match of text.matchAll(marks)) {
    const [whole, code, picture, title, address, bold, strong, slanted, italic] = match
    pieces.push(text.slice(from, match.index))
    from = match.index + whole.length
    if (code !== undefined) pieces.push(html`<code>${code}</code>`)
    else if (address !== undefined) pieces.push(linkOf(picture === '!', title!, address))
    else if (bold ?? strong) pieces.push(html`<b>${bold ?? strong}</b>`)
    else pieces.push(html`<i>${slanted ?? italic}</i>`)
  }
  return [...pieces, text.slice(from)]
}

function linkOf(isPicture: boolean, title: string, address: string): ComponentChildren {
  const whole = URL.parse(address)
  if (isPicture || whole?.protocol !== 'https:') return `${title} (${address})`
  return html`<a href=${whole.href} target="_blank" rel="noopener noreferrer">${title === '' ? address : title}</a>`
}
