// Runs before the page is drawn, as a script and not as a module: puts the colours on that somebody chose by hand.
{
  let chosen: string | null = null
  try {
    chosen = localStorage.getItem('sluice.scheme')
  } catch {
    // Without storage the browser's preference holds.
  }
  if (chosen === 'light' || chosen === 'dark') document.documentElement.style.colorScheme = chosen
}
