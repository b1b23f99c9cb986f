// Signing in and out, the own account, members and invitations.
import type { FastifyReply } from 'fastify'
import { managementOperations as operations } from '../../contract/operations.ts'
import {
  acceptInvitation,
  addPasskey,
  askForPasskey,
  beginPasskey,
  changeMember,
  closeSession,
  endSession,
  invite,
  listInvitations,
  listMembers,
  listSessions,
  removeMember,
  removePasskey,
  showInvitation,
  signInWithPasskey,
  wayOfNotices,
  withdrawInvitation,
  type SignedIn,
} from '../../workspace/workspace.ts'
import type { ManagementRouter } from '../manage.ts'

export function peopleRoutes(router: ManagementRouter): void {
  const { anyone, person, office, jar } = router
  const { people } = office
  const welcome = (reply: FastifyReply, signedIn: SignedIn) => {
    jar.give(reply, signedIn)
    return people.account(signedIn.userId)
  }

  anyone(operations.signIn, async ({ body, browser, reply }) => welcome(reply, await people.signIn(body, browser)))
  anyone(operations.askForPasskey, () => askForPasskey(office))
  anyone(operations.signInWithPasskey, async ({ body, browser, reply }) =>
    welcome(reply, await signInWithPasskey(office, body, browser)),
  )
  anyone(operations.askForReset, ({ body }) => {
    people.askForReset(body.email)
    return Promise.resolve(undefined)
  })
  anyone(operations.resetPassword, async ({ body, reply }) => {
    jar.giveDevice(reply, await people.resetPassword(body.token, body.password))
  })
  anyone(operations.showInvitation, ({ body }) => showInvitation(office.db, body.token))
  anyone(operations.acceptInvitation, async ({ body: { token, ...wish }, browser, holder, reply }) => {
    const signedIn = await acceptInvitation(office, token, wish, holder, browser)
    // Without a new session the person was signed in as the invited one.
    return signedIn === undefined ? people.account(holder?.userId ?? '') : welcome(reply, signedIn)
  })

  person(operations.readAccount, ({ holder }) => people.account(holder.userId))
  person(operations.signOut, async ({ holder, reply }) => {
    await closeSession(office.db, holder)
    jar.takeBack(reply)
    return undefined
  })
  person(operations.listSessions, async ({ holder }) => ({ items: await listSessions(office.db, holder) }))
  person(operations.endSession, async ({ holder, path }) => {
    await endSession(office.db, holder, path.sessionId)
  })
  person(operations.renameAccount, async ({ holder, body }) => {
    await people.rename(holder, body.name)
    return people.account(holder.userId)
  })
  person(operations.changePassword, async ({ holder, body, reply }) => {
    jar.giveDevice(reply, await people.changePassword(holder, body.password, body.newPassword))
  })
  person(operations.beginTwoFactor, ({ holder, body }) => people.beginTwoFactor(holder, body.password))
  person(operations.confirmTwoFactor, async ({ holder, body }) => ({
    recoveryCodes: await people.confirmTwoFactor(holder, body.code),
  }))
  person(operations.endTwoFactor, ({ holder, body }) => people.endTwoFactor(holder, body.password))
  person(operations.beginPasskey, ({ holder, body }) => beginPasskey(office, holder, body.password))
  person(operations.addPasskey, ({ holder, body }) => addPasskey(office, holder, body))
  person(operations.removePasskey, ({ holder, path }) => removePasskey(office.db, holder, path.passkeyId))
}

export function memberRoutes({ member, office }: ManagementRouter): void {
  member(operations.listMembers, async ({ by }) => ({ items: await listMembers(office.db, by.workspaceId) }))
  member(operations.changeMember, ({ by, path, body }) => changeMember(office.db, by, path.userId, body.role))
  member(operations.removeMember, ({ by, path }) => removeMember(office.db, by, path.userId))
  member(operations.listInvitations, async ({ by: { workspaceId }, holder }) => {
    const asking = { workspaceId, operator: holder?.operator === true }
    const [items, mail] = await Promise.all([listInvitations(office.db, workspaceId), wayOfNotices(office, asking)])
    return { items, mail }
  })
  member(operations.invite, ({ by, body }) => invite(office, by, body.email, body.role))
  member(operations.withdrawInvitation, ({ by, path }) => withdrawInvitation(office.db, by, path.invitationId))
}
