// What a client's first word of TLS offers, so that it fills no more than a packet.
import { createSecureContext, DEFAULT_ECDH_CURVE } from 'node:tls'

/**
 * The key exchanges of OpenSSL's choice (`ecdhCurve`), but without the key of the one that quantum computers do not break: with it the first word fills more
 * than a packet, and some hosts, or what stands before them, never hear such a one (https://github.com/openssl/openssl/issues/27557). A host that wants it asks
 * for the key, one round later.
 */
export const keyExchanges = known('?X25519MLKEM768:DEFAULT') ?? DEFAULT_ECDH_CURVE

/** An OpenSSL before 3.5 cannot read it, and sends no such key. */
function known(groups: string): string | undefined {
  try {
    createSecureContext({ ecdhCurve: groups })
    return groups
  } catch {
    return undefined
  }
}
