// Logins as operators see to them at the keyboard: made, listed, given or denied the rights of an operator, begun anew for somebody who has lost
// everything, and removed. What people do with their own stands in people.ts, what members do with each other in members.ts.
import { given, shown, type Given } from '../base/given.ts'
import { makePassword } from '../base/secret.ts'
import { limits } from '../config.ts'
import type { WorkspaceId } from '../domain/message.ts'
import type { MemberRole } from '../domain/scopes.ts'
import { parseAddress } from '../mail/address.ts'
import { writeAudit, type AuditEntry } from '../store/audit.ts'
import type { Db } from '../store/database.ts'
import { countOwners, findRole, insertMember, lockMembers, setMemberRole } from '../store/members.ts'
import { deletePasskeys } from '../store/passkeys.ts'
import { dropPasswordResets } from '../store/password-resets.ts'
import {
  deleteUser,
  listUserRow,
  listUserRows,
  lockUserByEmail,
  setOperator,
  setPasswordHash,
  userByEmail,
  type ListedUserRow,
  type UserRow,
} from '../store/people.ts'
import { removeTotp } from '../store/second-factors.ts'
import { deleteSessions } from '../store/sessions.ts'
import { keepsOwner, newUser, withdrawInvitationsOf, withdrawInvitationTo } from './members.ts'
import { Mistake } from './mistake.ts'
import { readSystemWorkspace } from './notices.ts'
import { makePasswords } from './passwords.ts'

export type Login = Given<Omit<ListedUserRow, 'emailKey'>>

/** `name` is what they are called by now: one who was there keeps their own. */
interface MadeLogin {
  readonly id: string
  readonly email: string
  readonly name?: string
  readonly operator: boolean
  readonly password?: string
}

const passwordBytes = 15

/** A person with a random password, shown once: the operator's command and the first start. */
export async function createUser(
  db: Db,
  actor: string,
  wish: {
    readonly email: string
    readonly name?: string
    readonly operator: boolean
    readonly member?: { readonly workspace: WorkspaceId; readonly role: MemberRole }
  },
): Promise<MadeLogin> {
  const address = parseAddress(wish.email.trim())
  if (address === undefined) throw new Mistake(`"${wish.email}" is not an address, such as ada@example.com.`)
  const password = makePassword(passwordBytes)
  const hash = await makePasswords().hash(password, address.text)
  return db.transaction(async (tx) => {
    const known = await lockUserByEmail(tx, address.key)
    if (known !== undefined && wish.member === undefined && !wish.operator)
      throw new Mistake(`There is already a user ${address.text}.`, { code: 'conflict' })
    const user = known ?? (await newUser(tx, address.text, wish.name, hash, wish.operator))
    if (wish.operator && !user.operator) await setOperator(tx, user.id, true)
    if (wish.member !== undefined) {
      const { workspace, role } = wish.member
      await lockMembers(tx, workspace)
      if (!(await insertMember(tx, workspace, user.id, role))) {
        const hadOwner = (await countOwners(tx, workspace)) > 0
        await setMemberRole(tx, workspace, user.id, role)
        if (hadOwner) await keepsOwner(tx, workspace)
        await withdrawInvitationsOf(tx, { workspaceId: workspace, actor }, `user:${user.id}`, role)
      }
      await withdrawInvitationTo(tx, { workspaceId: workspace, actor }, user.email)
    }
    const operator = user.operator || wish.operator
    // What is so now, not what was asked for: an operator stays one.
    const facts = { operator, ...(wish.member !== undefined && { role: wish.member.role }) }
    const workspaceId = wish.member?.workspace
    await writeAudit(
      tx,
      given<AuditEntry>({
        actor,
        action: known === undefined ? 'user.created' : 'user.changed',
        target: user.email,
        facts,
        workspaceId,
      }),
    )
    const { id, email, name } = user
    return given<MadeLogin>({ id, email, name, operator, password: known === undefined ? password : undefined })
  })
}

/** All of them, in the order of addresses. */
export async function listLogins(db: Db): Promise<Login[]> {
  const most = limits.loginsListedAtOnce
  const logins: Login[] = []
  for (let after: string | undefined = ''; after !== undefined;) {
    const rows: ListedUserRow[] = await listUserRows(db, after, most)
    logins.push(...rows.map(presentLogin))
    after = rows[most - 1]?.emailKey
  }
  return logins
}

/** Gives the rights of an operator, or takes them: what is open in a browser loses them with the next request. */
export async function setLogin(
  db: Db,
  actor: string,
  email: string,
  changes: { readonly operator: boolean },
): Promise<{ readonly id: string; readonly email: string; readonly operator: boolean }> {
  return db.transaction(async (tx) => {
    const user = await requireUser(tx, email, lockUserByEmail)
    await setOperator(tx, user.id, changes.operator)
    const workspaceId = changes.operator ? undefined : await readSystemWorkspace(tx)
    if (workspaceId !== undefined) {
      // Whoever comes into that one reads the links of all new passwords.
      await lockMembers(tx, workspaceId)
      const role = await findRole(tx, workspaceId, user.id)
      await withdrawInvitationsOf(tx, { workspaceId, actor }, `user:${user.id}`, role)
    }
    await writeAudit(tx, { actor, action: 'user.changed', target: user.email, facts: changes })
    return { id: user.id, email: user.email, ...changes }
  })
}

/** For somebody who has lost everything, or from whom a device was taken: a new password, shown once; no second factor, passkey or session is left. */
export async function beginLoginAnew(
  db: Db,
  actor: string,
  email: string,
): Promise<{ readonly id: string; readonly email: string; readonly operator: boolean; readonly password: string }> {
  const known = await requireUser(db, email)
  const password = makePassword(passwordBytes)
  const hash = await makePasswords().hash(password, known.email)
  return db.transaction(async (tx) => {
    const { id, email: address, operator } = await requireUser(tx, email, lockUserByEmail)
    await setPasswordHash(tx, id, hash)
    await dropPasswordResets(tx, id)
    await removeTotp(tx, id)
    await deletePasskeys(tx, id)
    await deleteSessions(tx, id)
    await writeAudit(tx, { actor, action: 'user.reset', target: address })
    return { id, email: address, operator, password }
  })
}

/** With all that is theirs alone. A workspace keeps an owner: who is the last one is not removed. `isSure`: the operator has seen what goes, or does not care to. */
export async function removeLogin(db: Db, actor: string, email: string, isSure: boolean): Promise<Login> {
  return db.transaction(async (tx) => {
    const { id } = await requireUser(tx, email, lockUserByEmail)
    const listed = async () => presentLogin((await listUserRow(tx, id)) as ListedUserRow)
    // Also where they were an owner without being a member. In the order of their ids, as every transaction that locks several.
    const system = await readSystemWorkspace(tx)
    const own = (await listed()).workspaces.map((workspace) => workspace.id)
    const places = [...new Set([...own, ...(system === undefined ? [] : [system])])].sort()
    for (const workspace of places) await lockMembers(tx, workspace)
    // Once more: until it was locked, each of them may have given them another role.
    const login = await listed()
    for (const { id: workspace, name, role } of login.workspaces)
      if (role === 'owner' && (await countOwners(tx, workspace)) === 1)
        throw new Mistake(
          `${login.email} is the only owner of "${name}": make another first (posthorn user create --email ... --workspace ${workspace} --role owner).`,
          { code: 'conflict' },
        )
    if (!isSure) throw new Mistake(whatWouldGo(login))
    await deleteUser(tx, id)
    const gone = { actor, target: login.email }
    for (const { id: workspaceId } of login.workspaces)
      await writeAudit(tx, { ...gone, workspaceId, action: 'member.removed' })
    for (const workspaceId of places) await withdrawInvitationsOf(tx, { workspaceId, actor }, `user:${id}`)
    await writeAudit(tx, { ...gone, action: 'user.removed' })
    return login
  })
}

function whatWouldGo({ email, operator, workspaces }: Login): string {
  const places = workspaces.map(({ name, role }) => `"${name}" (${role})`).join(', ')
  const who = [operator ? 'an operator' : '', places === '' ? '' : `a member of ${places}`].filter(
    (each) => each !== '',
  )
  return `Nothing was removed: give --yes to remove the login ${email} for good${who.length === 0 ? '' : `, ${who.join(' and ')}`}, with its password, passkeys, sessions and open invitations.`
}

async function requireUser(db: Db, email: string, find = userByEmail): Promise<UserRow> {
  const key = parseAddress(email.trim())?.key
  const user = key === undefined ? undefined : await find(db, key)
  if (user === undefined) throw new Mistake(`There is no user "${email}"; \`posthorn user list\` shows them all.`)
  return user
}

const presentLogin = ({ emailKey: _key, ...row }: ListedUserRow): Login => shown(row)
