// Which browser says so of itself, for people: all of them begin with "Mozilla/5.0", and most name Safari and Chrome before themselves.

const browsers = [
  [/\bEdg(?:e|A|iOS)?\//, 'Edge'],
  [/\bOPR\//, 'Opera'],
  [/\bFirefox\/|\bFxiOS\//, 'Firefox'],
  [/\bChrome\/|\bChromium\/|\bHeadlessChrome\/|\bCriOS\//, 'Chrome'],
  [/\bSafari\//, 'Safari'],
] as const
const systems = [
  [/\bAndroid\b/, 'Android'],
  [/\biPhone\b/, 'iPhone'],
  [/\biPad\b/, 'iPad'],
  [/\bWindows\b/, 'Windows'],
  [/\bCrOS\b/, 'ChromeOS'],
  [/\bMac OS X\b|\bMacintosh\b/, 'macOS'],
  [/\bLinux\b/, 'Linux'],
] as const
type Names = readonly (readonly [RegExp, string])[]
const named = (names: Names, agent: string) => names.find(([mark]) => mark.test(agent))?.[1]

/** `Firefox on Windows`; what is no browser is called as it calls itself. */
export function browserIn(agent: string): string {
  const browser = named(browsers, agent)
  const system = named(systems, agent)
  if (browser === undefined) return agent === '' ? 'Unknown' : agent
  return system === undefined ? browser : `${browser} on ${system}`
}
