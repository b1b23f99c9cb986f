// Whether a host name can mean anything to others: receivers look it up, and people copy it into their DNS.

/** Known to this machine or this network alone (RFC 6761, RFC 6762, ICANN's `.internal`). */
const near = /\.(?:local|localhost|localdomain|internal)$/

export const isFullName = (host: string): boolean => host.includes('.') && !near.test(host)
