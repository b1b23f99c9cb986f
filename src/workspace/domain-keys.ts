// The DKIM keys of domains: how one is made and named. It is made before a transaction begins: that takes as long as a hundred statements, and
// waits for its turn.
import { randomInt } from 'node:crypto'
import { sealedAs, type Vault } from '../base/secret.ts'
import { turnFor, turns } from '../base/turns.ts'
import { limits } from '../config.ts'
import type { WorkspaceId } from '../domain/message.ts'
import { generateDkimKey, type DkimAlgorithm } from '../mail/dkim.ts'
import type { Db } from '../store/database.ts'
import { findDomainById } from '../store/domains.ts'
import { busy } from './mistake.ts'

export interface MadeKey {
  readonly publicKey: string
  readonly privateKeySealed: Buffer
}

/** One at a time, by turns of the workspaces: each takes a processor for a tenth of a second, and a thread that passwords and signatures need too. */
const turn = turns({ most: 1, share: 1, waitMs: limits.dkimKeyWaitMs })

export async function makeKey(
  vault: Vault,
  workspace: WorkspaceId,
  domain: string,
  algorithm?: DkimAlgorithm,
): Promise<MadeKey> {
  const leave = await turnFor(workspace, turn, () => busy('Too many DKIM keys are being made'))
  const { privateKeyPem, publicKeyBase64 } = await generateDkimKey(algorithm).finally(leave)
  return {
    publicKey: publicKeyBase64,
    privateKeySealed: vault.seal(privateKeyPem, sealedAs.dkimKey(workspace, domain)),
  }
}

/**
 * `ph202611-k7q2`: says to the owner of the zone how old a key is. The letters keep apart the keys that a domain has in several workspaces or
 * installations, or had before it was added again: none of them knows of the others, and two keys at one name spoil both (RFC 6376 3.6.2.2).
 */
export function newSelector(): string {
  const alphabet = 'abcdefghijklmnopqrstuvwxyz234567' // base32, RFC 4648 6
  const letters = Array.from({ length: 4 }, () => alphabet[randomInt(alphabet.length)])
  return `ph${new Date().toISOString().slice(0, 7).replace('-', '')}-${letters.join('')}`
}

interface NewDomainKey extends MadeKey {
  readonly algorithm: DkimAlgorithm
}

/** Another key for a domain; undefined where one of this algorithm waits already, or the workspace has no such domain. */
export async function newDomainKey(
  { db, vault }: { readonly db: Db; readonly vault: Vault },
  workspace: WorkspaceId,
  id: string,
  algorithm: DkimAlgorithm,
): Promise<NewDomainKey | undefined> {
  const row = await findDomainById(db, workspace, id)
  if (row === undefined || row.keys.some((key) => key.state === 'pending' && key.algorithm === algorithm))
    return undefined
  return { algorithm, ...(await makeKey(vault, workspace, row.name, algorithm)) }
}
