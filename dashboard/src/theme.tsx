// Light, dark, or as the system says; remembered in this browser (public/theme.js sets it before the first paint).
import { Monitor, Moon, Sun } from 'lucide-react'
import { useState } from 'react'
import { IconButton } from './ui/button.tsx'

const order = ['system', 'light', 'dark'] as const
type Theme = (typeof order)[number]
const icons = { system: Monitor, light: Sun, dark: Moon }

function chosen(): Theme {
  const theme = document.documentElement.dataset['theme']
  return theme === 'light' || theme === 'dark' ? theme : 'system'
}

export function ThemeButton() {
  const [theme, set] = useState(chosen)
  const next = order[(order.indexOf(theme) + 1) % order.length] ?? 'system'
  const Icon = icons[theme]
  const change = () => {
    if (next === 'system') delete document.documentElement.dataset['theme']
    else document.documentElement.dataset['theme'] = next
    try {
      localStorage.setItem('theme', next)
    } catch {
      // It then holds until the page is left.
    }
    set(next)
  }
  return (
    <IconButton label={`Theme: ${theme}. Change to ${next}`} onClick={change}>
      <Icon aria-hidden className="size-4" />
    </IconButton>
  )
}
