// Keeps the focus where the reader was: when what they were at is taken away, what stands in its place has it.

/** Where an element stood: each of those around it, from the innermost on, with the place among its children. */
type Stand = readonly { readonly around: Element; readonly place: number }[]

const usable = 'a[href], button:not(:disabled), input:not(:disabled), select, textarea, summary, [tabindex]'

/**
 * Milliseconds after a change in which whoever made it may say where the focus goes: between two elements nothing has
 * it for a moment, in which a page may be drawn, and a dialog gives it back after it was taken away.
 */
const pause = 50

let last: { readonly element: HTMLElement; readonly stand: Stand } | undefined
/** What has the focus instead of one that is disabled for now. */
let instead: Element | undefined

/** Begins; called once. A browser gives the focus of what goes to the whole page, where nobody sees it. */
export function keepFocus(): void {
  addEventListener('focusin', ({ target }) => {
    if (!(target instanceof HTMLElement) || target === instead) return
    last = { element: target, stand: standOf(target) }
    instead = undefined
  })
  // Who presses beside everything has left by themselves.
  addEventListener('pointerdown', () => (last = undefined), { capture: true })
  const changes = { childList: true, subtree: true, attributes: true, attributeFilter: ['disabled', 'open', 'hidden'] }
  let timer: ReturnType<typeof setTimeout> | undefined
  new MutationObserver(() => {
    clearTimeout(timer)
    timer = setTimeout(restore, pause)
  }).observe(document.body, changes)
}

function restore(): void {
  const now = document.activeElement
  if (!last || (now !== document.body && now !== null && now !== instead && !isDisabled(now))) return
  const { element, stand } = last
  if (element.isConnected && !isDisabled(element)) {
    element.focus()
    instead = undefined
    return
  }
  if (instead?.isConnected) return
  const found = nearest(stand)
  if (element.isConnected) instead = found
  found?.focus()
}

function isDisabled(element: Element): boolean {
  return element.matches(':disabled') || !element.checkVisibility()
}

function standOf(element: Element): Stand {
  const stand: { around: Element; place: number }[] = []
  for (let one = element; one.parentElement; one = one.parentElement)
    stand.push({ around: one.parentElement, place: [...one.parentElement.children].indexOf(one) })
  return stand
}

/** What can be used and is nearest to where something stood; at the latest the heading of the page. */
function nearest(stand: Stand): HTMLElement | undefined {
  for (const { around, place } of stand) {
    if (!around.isConnected) continue
    if (around.id === 'main' || around === document.body) break
    const { children } = around
    const beside = [
      children[Math.min(place, children.length - 1)],
      around.hasAttribute('tabindex') ? around : undefined
    ]
    for (const one of [...beside, around]) {
      const found = one && [one, ...one.querySelectorAll(usable)].find(canHave)
      if (found instanceof HTMLElement) return found
    }
  }
  return document.querySelector<HTMLElement>('dialog[open] h2, main h1') ?? undefined
}

function canHave(element: Element): boolean {
  return element.matches(usable) && element.checkVisibility({ visibilityProperty: true })
}
