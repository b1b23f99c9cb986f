// Sizes as people say them; a number and its unit stay in one line.

const units = ['KB', 'MB', 'GB'] as const

export function bytes(count: number): string {
  if (count < 1024) return `${count}\u00A0B`
  let size = count / 1024
  let unit = 0
  // 1023.95 of one would be written as 1024.0.
  for (; size >= 1023.95 && unit < units.length - 1; unit++) size /= 1024
  return `${size.toFixed(1)}\u00A0${units[unit]}`
}
