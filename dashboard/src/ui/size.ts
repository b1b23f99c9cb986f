// Sizes as people say them.

export function bytes(count: number): string {
  if (count < 1024) return `${count} B`
  return count < 1024 * 1024 ? `${(count / 1024).toFixed(1)} KB` : `${(count / 1024 / 1024).toFixed(1)} MB`
}
