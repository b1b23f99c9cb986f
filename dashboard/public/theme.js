// Before the first paint: the chosen theme, else the system's. A file of its own, because the policy allows no inline script.
try {
  const chosen = localStorage.getItem('theme')
  if (chosen === 'light' || chosen === 'dark') document.documentElement.dataset.theme = chosen
} catch {
  // Storage may be closed to us; then the system decides.
}
