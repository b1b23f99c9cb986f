// Sizes as people say them; a number and its unit stay in one line.

export function bytes(count: number): string {
  if (count < 1024) return `${count}\u00A0B`
  return count < 1024 * 1024 ? `${(count / 1024).toFixed(1)}\u00A0KB` : `${(count / 1024 / 1024).toFixed(1)}\u00A0MB`
}
