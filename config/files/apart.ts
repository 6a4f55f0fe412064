// Takes a section out of the text of a file without moving what is around it.

/**
 * The text with an empty list in place of a section of its top level, and empty lines for those of the section, so that
 * all else keeps its place. Only where the section is written in lines of its own, as nearly everybody does; otherwise
 * the text may mean anything, and who calls this must check what it means.
 */
export function withoutSection(text: string, name: string): string {
  const begins = new RegExp(`^(["']?)${name}\\1[ \\t]*:`)
  let inside = false
  return text
    .split('\n')
    .map((line) => {
      // Entries of a list may begin where the name of the section does.
      if (!/^[^\s#-]/.test(line)) return inside ? '' : line
      inside = begins.test(line)
      return inside ? `${name}: []` : line
    })
    .join('\n')
}
