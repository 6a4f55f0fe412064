// Signs that cannot be seen, or that turn the order of others: wherever a text is drawn they are named, so that what is
// read is what is there.
import { options } from 'preact'
import type { VNode } from 'preact'

/**
 * Control characters, halves of characters, and those that are invisible or change the direction of text. Tab and line
 * feed are none, nor what chooses between two looks of an emoji.
 */
const strange =
  // oxlint-disable-next-line no-control-regex
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb\u{e0000}-\u{e0fff}\p{Cs}]|\u034f/gu

/** The text with the names of such characters in their places: `‹U+202E›`. */
export function visible(text: string): string {
  return text.replace(strange, (sign) => `‹U+${sign.codePointAt(0)!.toString(16).toUpperCase().padStart(4, '0')}›`)
}

/** Names them in every text that is drawn from then on, whichever part of the page draws it. Attributes stay. */
export function nameSigns(): void {
  const before = options.vnode
  options.vnode = (vnode) => {
    // A text is drawn as a node without a type.
    const node = vnode as unknown as { readonly type: VNode['type'] | null; props: unknown }
    if (node.type === null && typeof node.props === 'string') node.props = visible(node.props)
    before?.(vnode)
  }
}
