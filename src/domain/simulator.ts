// The reserved domain whose addresses show every way that a mail can go (decisions J). On every installation the sandbox answers it, and
// nobody is suppressed by what it says.

export const simulatorDomain = 'simulator.posthorn.test'

/** Of a recipient's domain, as `EmailAddress` holds it. */
export function isSimulator(domain: string): boolean {
  return domain === simulatorDomain
}
