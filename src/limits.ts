// Every limit, once: whatever can grow has one, and here is its name. Sizes in bytes, times in milliseconds, unless the name says otherwise.
import { usableMemory } from './base/memory.ts'

/** The rooms below are meant for a machine with this memory. */
const roomyMebibytes = 2048
/** What our processes and the embedded database take of it before any mail is held. */
const takenMebibytes = 640

/**
 * What may be held at once, in bytes, on a machine or in a container with so much memory: on a small one a part of it, but never less than one message
 * needs, and a share (`OfWorkspace`) leaves room for others. The part is of what is left: half of all of it ended a service with 1 GB at a few mails of
 * 20 MB.
 */
export function heldAtOnce(memoryBytes: number = usableMemory()) {
  const mebibyte = 1024 * 1024
  const left = Math.max(0, memoryBytes / mebibyte - takenMebibytes)
  const part = Math.min(1, left / (roomyMebibytes - takenMebibytes))
  const fitted = (mebibytes: number, least: number): number => Math.floor(Math.max(least, mebibytes * part) * mebibyte)
  return {
    /** Bodies above `largeRequestBytes`, from before they are read until they are answered. More wait, then get 503. */
    largeRequestsBytesMax: fitted(96, 64),
    largeRequestsOfWorkspaceBytesMax: fitted(60, 48),
    /** Of small bodies that do not come at once, by what has come: of those with a key or a session, and as much again of strangers. */
    slowRequestsBytesMax: fitted(32, 16),
    /** Of answers that are made and not read yet. What is larger counts as the whole of it. */
    unreadAnswersBytesMax: fitted(64, 16),
    /** What one SMTP server has for all its sessions; a message beyond it gets 451. */
    smtpContentInFlightBytesMax: fitted(192, 48),
    submissionContentOfWorkspaceBytesMax: fitted(128, 32),
    feedbackContentInFlightBytesMax: fitted(96, 40),
    /** What is being delivered; and what of it exists a second time, for hosts without 8BITMIME. What is larger than a share counts as the whole of it. */
    contentInFlightBytesMax: fitted(192, 12),
    contentOfWorkspaceBytesMax: fitted(128, 8),
    convertedInFlightBytesMax: fitted(64, 8),
    convertedOfWorkspaceBytesMax: fitted(32, 4),
  }
}

export const limits = {
  ...heldAtOnce(),

  // One message (decisions D)
  attachmentsMax: 10,
  attachmentsBytesMax: 20 * 1024 * 1024,
  bodyTextBytesMax: 5 * 1024 * 1024,
  subjectCodePointsMax: 998,
  filenameBytesMax: 255,
  contentTypeCharactersMax: 255,
  addressOctetsMax: 254,
  localPartOctetsMax: 64,
  metadataPairsMax: 20,
  metadataKeyCharactersMax: 40,
  metadataValueCharactersMax: 500,
  expiresAheadMsMax: 7 * 24 * 3600_000,
  idempotencyKeyCharactersMax: 255,

  // Requests over HTTP, and their connections
  requestBytesMax: 48 * 1024 * 1024,
  requestHeadersMs: 10_000,
  requestMs: 120_000,
  requestHeadBytesMax: 16 * 1024,
  requestHeadersMax: 100,
  httpConnectionsMax: 10_000,
  /** From one IPv4 address, or one IPv6 /64, that is neither this machine nor a proxy in front (POSTHORN_TRUST_PROXY); and through such a proxy, requests under way. */
  httpConnectionsPerAddressMax: 1_000,
  /** Requests of one connection that are not answered yet (HTTP pipelining). */
  httpPipelinedMax: 32,
  /** Longer than proxies keep what they do not use (connections.test.ts has a table). */
  keepAliveMs: 130_000,
  /** A connection over which nothing has gone for so long, in the middle of a request: longer than any answer takes. */
  silentConnectionMs: 600_000,
  /** What a smaller answer takes is little beside its connection. */
  smallAnswerBytes: 4 * 1024,
  /** How often a stop closes connections that nobody uses. */
  httpGoodbyeMs: 100,
  httpQuietMs: 10_000,
  /** So long a stop waits for bodies that still come: their senders hear that nothing was accepted before their connections are closed. */
  httpLastBytesMs: 7_000,
  apiKeyCharactersMax: 200,
  /** Of a list of what is allowed, in a refusal. */
  valuesNamedMax: 40,
  /** After a refusal the rest of a body is still read for this long, so that the caller gets to see the answer; or until nothing comes for so long. */
  lingerMs: 30_000,
  lingerIdleMs: 2_000,
  lingerBytesMax: 64 * 1024 * 1024,

  // Bodies of requests
  /** A body above this takes room before it is read. */
  largeRequestBytes: 256 * 1024,
  largeRequestWaitMs: 20_000,
  /** Of the memory that the machine has left, what everything else may take before another large mail is taken in: above all the delivery of one that was taken in before. */
  memoryReserveBytes: 64 * 1024 * 1024,
  /** So much mail is always taken in, whatever the machine has left: small mail is not refused for what large mail needs. */
  mailWithoutMemoryBytes: 8 * 1024 * 1024,
  /** The same for delivery: less, for what was accepted goes out before more is taken in. And who has waited so long goes when no other large mail does. */
  deliveryReserveBytes: 32 * 1024 * 1024,
  deliveryMemoryWaitMs: 60_000,
  /** What a body in chunks takes when it grows large; what grows beyond takes as much as the largest. */
  chunkedRequestBytes: 8 * 1024 * 1024,
  /** Of a body that holds room while others wait: less in so many seconds is too slow. */
  slowRequestSeconds: 10,
  slowRequestBytes: 128 * 1024,
  largeRequestsWaitingMax: 1_000,
  bodyReadMs: 20_000,
  /** A body that comes later is taken only if its sender may still send. */
  bodyAtOnceMs: 50,
  bodyThreadHeapMegabytesMax: 256,
  jsonDepthMax: 16,
  /** Members and elements of a body, all levels together. */
  jsonMembersMax: 1_000,
  jsonOutsideStringsMax: 1024 * 1024,

  // Who asks: guesses are slowed, answers remembered for a moment
  guessesFree: 10,
  guessDelayMsMax: 2_000,
  guessersMax: 10_000,
  guessForgottenMs: 60_000,
  guessesDelayedMax: 1_000,
  principalCacheMs: 900,
  principalsMax: 10_000,
  /** When keys and credentials were used is written down by so many at a time, and no more often. */
  usesAtOnceMax: 500,
  usesSpacingMs: 250,

  // SMTP servers of ours
  smtpCommandBytesMax: 2_048,
  smtpMessageBytesMax: 32 * 1024 * 1024,
  /**
   * Of one mail. The recipients of a session are bounded by its hour and by quotas: a client that keeps its session open for thousands of mails would
   * take a count that ends it for an error.
   */
  smtpRecipientsMax: 100,
  smtpSessionMs: 3600_000,
  smtpIdleMs: 300_000,
  smtpSessionsMax: 10_000,
  /** From one IPv4 address, or one IPv6 /64. */
  smtpSessionsPerAddressMax: 100,
  smtpHandshakeMs: 30_000,
  proxyHeaderBytesMax: 4_096,
  /** How long a peer may take to close after our last word. */
  smtpCloseMs: 2_000,
  /** How often the files of the certificate are looked at. */
  certificateRenewalMs: 60_000,
  smtpStopMs: 5_000,
  /** Protocol errors and failed logins since the last accepted message. */
  smtpErrorsMax: 20,
  smtpHeldInputBytesMax: 64 * 1024,
  smtpUnsentRepliesBytesMax: 64 * 1024,

  // SMTP submission (decisions F)
  /** From this machine itself: a relay beside us may hold many. */
  submissionSessionsPerLoopbackMax: 9_000,
  submissionSessionsPerCredentialMax: 1_000,
  /** From the final dot to our answer; what cannot be told by then was not accepted. The database may take its time of it at the end. */
  submissionAnswerMs: 30_000,
  submissionFieldsMax: 1_000,
  submissionHeaderBytesMax: 256 * 1024,
  /** RFC 5322 2.1.1, without the CRLF. */
  mailLineOctetsMax: 998,
  receivedFieldsMax: 30,
  /** Sender mailboxes are remembered as long as principals; so many of them. */
  sendersRememberedMax: 10_000,
  /** SMTP: beyond so many recipients in a second a workspace's list of suppressions is remembered, as long as principals, where it is no longer than this. */
  suppressionsAskedMany: 100,
  suppressionsRememberedMax: 5_000,
  /** A list that was longer is not looked at again for so long. */
  suppressionsTooManyMs: 60_000,
  /** So many workspaces are counted, and may have their lists remembered. */
  suppressionAskersMax: 100,
  /** SMTP: the identical message within this time is the same one (delivery-semantics 9). */
  repeatKeptMs: 3600_000,
  /** Where its octets tell when it was made: for as long as mail servers try (RFC 5321 4.5.4.1: 4 to 5 days), and a day more. */
  datedRepeatKeptMs: 6 * 24 * 3600_000,
  /** So many of those are remembered beyond `repeatKeptMs`, the newest of each workspace: some 400 bytes each. */
  datedRepeatsKept: 1_000_000,

  // Acceptance
  admitRowsMax: 500,
  admitBytesMax: 4 * 1024 * 1024,
  admitWaitingMax: 20_000,
  /** Between the starts of two admissions of few submissions while the event loop hardly rests; it is no more than a slow disk takes. */
  admitSpacingBusyMs: 15,
  /** Content above this is staged in chunks before the admission, which only refers to it. */
  contentInlineBytesMax: 64 * 1024,
  contentChunkBytes: 512 * 1024,
  /** While submissions wait for the database, a chunk is followed by a pause of so many times what it took. */
  stagePauseParts: 8,
  stagePauseMsMax: 250,
  /** All pauses of one file together: its sender waits for them. */
  stagePausesMsMax: 4_000,
  /**
   * For the turn and the commit of one chunk: a database that hangs is told to the caller within 5 seconds here, too. All of them together may take
   * their time: a large file on a slow disk gets on.
   */
  stageChunkMs: 4_500,
  stagedContentMs: 3600_000,
  /** A database that hangs is told to the caller within 5 seconds, all three together (delivery-semantics 5). */
  authenticationMs: 1_500,
  admissionMs: 2_300,
  /** Of that, for the commit and the way there and back: what was not done before is not admitted. */
  admissionKeepMs: 300,
  /** A row that has less left than the last statement took, or twice what one took that came too late, does not go along: it would spoil the next for those beside it. No more than this is asked. */
  admissionNeedMsMax: 100,
  /** So long all wait for one workspace's row of quota that somebody holds; behind that, those of this workspace alone (store/held-rows.ts). */
  admissionLockMs: 500,
  rereadMs: 1_000,
  idempotencyWaitMs: 5_000,

  // The malware scan: of one submission, all files together
  scanMs: 10_000,
  /** Less than half: owners take turns, and who has waited for the dearest order of another still has time for its own. */
  examineMs: 4_500,
  scansWaitingMax: 1_000,
  scanThreadHeapMegabytesMax: 256,
  /** Files inside files. */
  scanEntriesMax: 10_000,
  scanDepthMax: 10,
  scanEntryBytesMax: 64 * 1024 * 1024,
  scanBytesMax: 192 * 1024 * 1024,
  /** A file above `scanRatioFreeBytes` may be at most so many times larger than it was packed. */
  scanRatioMax: 200,
  scanRatioFreeBytes: 16 * 1024 * 1024,
  /** Encoded parts of a mail that are given to the engine one by one. */
  scanLeavesMax: 200,
  clamdStreamsMax: 4,
  clamdChunkBytes: 256 * 1024,
  clamdReplyBytesMax: 1_024,
  clamdVersionMs: 60_000,
  /** What the engine must take in one stream: the largest message over SMTP. */
  clamdStreamBytesMin: 32 * 1024 * 1024,
  scannerAgainSeconds: 30,

  // Reading MIME (mail/mime-entity.ts): fields, parts and decoded bytes of the whole, header bytes of each entity
  mimeDepthMax: 100,
  mimePartsMax: 2_000,
  mimeFieldsMax: 10_000,
  mimeHeaderBytesMax: 256 * 1024,
  mimeDecodedBytesMax: 64 * 1024 * 1024,

  // The record of refused submissions (decisions H)
  refusalsWaitingMax: 5_000,
  refusalsSpacingMs: 250,
  refusalsKeptMs: 30 * 24 * 3600_000,
  /** Of one workspace, at each node: refusals cost nothing, and a client in a loop would fill the disk with them. */
  refusalsPerHourMax: 10_000,
  /** What is kept of the words of one. */
  refusalFieldCharactersMax: 100,
  refusalErrorCharactersMax: 250,
  /** One page of a search for a code or a source looks at so many. */
  refusalsScannedMax: 10_000,

  // Delivery: the tries of a message (decisions B)
  retriesMax: 50,
  retrySpanSecondsMax: 24 * 3600,
  retryJitter: 0.1,
  messageAgeMsMax: 26 * 3600_000,

  // Claims
  messagesInFlightMax: 1_000,
  /** Between two notifications of one process: who is told claims no more often anyway. */
  nudgeSpacingMs: 20,
  claimMost: 400,
  claimLeast: 100,
  /** With so many free slots nobody waits for more. */
  claimMany: 250,
  /** Between two claims for fewer. */
  claimWaitMs: 100,
  /** Between two for fewer than `claimLeast`. */
  claimFewMs: 1_000,
  /** Behind a claim that found few: so many times what it took, and no longer than this and a millisecond for each that it found. */
  claimPauseParts: 4,
  claimPauseMsLeast: 10,
  claimPauseMsMax: 75,
  workspacesPerClaimMax: 200,
  lanesPerClaimMax: 200,
  /** How long a workspace's place in the walk over its lanes is kept when no claim has walked on: longer than hosts that say nothing may keep it crowded. */
  laneCursorKeptMs: 3600_000,
  /** An idle look at all workspaces may take this part of the time. */
  idleLookPart: 0.05,

  // Walks along a queue of mail or webhooks (base/floor.ts)
  /** Between two whole ones; and they take no more than this part of the time. */
  wholeWalkMs: 1_000,
  wholeWalkPart: 0.05,
  /** So long after it is due a row may come into sight, and is found by the next walk of any kind. */
  walkMarginMs: 5_000,
  /** What has expired and gets no turn is looked for in steps of so many pages, which take no more than this part of the time (of a slow database more: no pause between two is longer than the rest), and all over again after a rest. */
  expiryPagesPerLook: 1_000,
  /** And is ended so many at once. */
  expiryRowsPerLook: 2_000,
  expiryLookPart: 0.05,
  expiryRestMs: 5_000,

  // Rows that contradict each other, and rows that somebody holds (store/held-rows.ts)
  /** A message whose rows contradict each other waits so long until it is looked at again; of so many one statement goes past. */
  refusedRowRestMs: 3_600_000,
  refusedRowsAtOnce: 100,
  /** What is done for many messages at once waits so long for one of them that somebody holds (store/held-rows.ts), and looks first for a while behind that. */
  lockMs: 1_000,
  heldLookMs: 10_000,
  /** And so long for a table that somebody has. */
  heldPatienceMs: 30_000,

  // Fairness: slots are messages in flight
  /** One destination's, once it has answered often enough. */
  claimShareMax: 500,
  slotsAtFirst: 20,
  slotsAtLeast: 5,
  /** What a destination has earned beyond `slotsAtFirst` counts at its first claim only so long after its last answer. */
  slotsRestMs: 60_000,
  workspaceSlotsMax: 800,
  /** Without an answer for so long, a destination counts as stalled. */
  stalledAfterMs: 1_000,
  stalledSlotsMax: 500,
  /** So long a message that is the only one at its provider is slow, and not stalled: many hosts greet late. */
  slowGreetingMs: 15_000,
  /** How long a message that gave its slot back waits: the first time, and twice as long each time that it comes back without a try, up to a limit. */
  gaveWayMs: 10_000,
  gaveWayMsMax: 600_000,
  /** The same where the database, or this process, was away when it was to be sent. */
  ourLackMs: 1_000,
  ourLackMsMax: 60_000,
  slotsLookMs: 250,
  destinationsKnownMax: 10_000,

  // Who was out of reach
  /** Mail that found nobody is tried again when they are there again, so long after its last try: twice as long each time. */
  backAgainMs: 10_000,
  backAgainLookMs: 1_000,
  outOfReachKnownMax: 20_000,
  hastenedAtOnce: 500,
  /** An address that was out of reach is tried last for so long. */
  unreachableMs: 300_000,
  unreachableMost: 10_000,

  // Manners towards destinations
  providersKnownMax: 10_000,
  /** Refusals by the policy of one provider are one warning in so long. */
  policyWarnedAgainMs: 3600_000,
  /** A relay that refused a login takes it again when it has refused none for so long: one of its hosts may still be wrong. */
  loginTakenAfterMs: 60_000,
  /** Between two looks at whether any mail still waits for such a relay. */
  loginsLookMs: 60_000,
  /** Without news for so long no mail waits for it any more: longer than the longest pause between two tries. */
  loginForgottenMs: 9 * 3600_000,
  /** All mail to a provider was put off for so long, and in so many attempts, which are more than one message has. */
  deferralsToldAfterMs: 10 * 60_000,
  deferralsLeast: 12,
  /** So many providers at once are told of. */
  deferralsToldMax: 20,
  /** Beyond those, one with so many times the attempts of the one that has fewest takes its place. */
  deferralsOutdone: 10,
  /** As with logins. */
  deferralsForgottenMs: 9 * 3600_000,
  destinationLimitsMax: 1_000,
  destinationLimitsReadMs: 5_000,
  /** How long a destination that asks for less is left alone: the first time, the second time in a row, ... */
  pauseStepsMs: [1_000, 5_000, 30_000, 120_000, 600_000],
  pauseMsMax: 3600_000,
  /** As long as a single host of a destination has asked for a longer one, and only once. */
  firstPauseMsMax: 300_000,
  /** Providers with a pause that the metrics name. */
  pausesShown: 50,
  pausesKeptMs: 1_000,
  successesPerStep: 20,
  /** Messages on the first day of a warm-up; twice as many on each day after. */
  warmUpFirstDay: 100,

  // Arms and endings
  /** Arms, or endings, in one statement. */
  claimsPerStatementMax: 200,
  armSpacingMs: 6,
  armSpacingMostMs: 30,
  endingSpacingMs: 25,
  /** How soon a disk that did not take the mark of this node is tried again. */
  markAgainMs: 1_000,

  // Content on its way, and threads that sign it (deliver/signers.ts)
  preparingAtOnceMax: 128,
  /** Messages whose content is read from the database at once: fewer than the lines that deliverers have there beside arms and endings (roles/deliver.ts). */
  contentReadsMax: 3,
  /** Whose host says nothing for so long gives its content's room to those who wait for some. */
  contentPatienceMs: 15_000,
  signingThreadsMax: 4,
  signingThreadHeapMegabytesMax: 64,
  /** In one order to a thread. */
  signaturesPerOrderMax: 32,
  signMs: 30_000,

  // Connections to mail hosts
  connectionsPerDestinationMax: 20,
  connectionsPerRelayMax: 200,
  /** As many as messages in flight: their share of those is what keeps one workspace's from using up all. */
  connectionsMax: 1_000,
  /** How long a message waits in line for a connection, before it goes back to the queue. */
  connectionLineMs: 30_000,
  /** So long a host that hung up in place of a greeting, beside other connections, has no more than those. */
  connectionsBorneMs: 300_000,
  /** So long a place keeps its only connection where others wait for it. */
  connectionTurnMs: 1_000,
  messagesPerConnectionMax: 100,
  /** In a row: a host that refuses so many may mean the connection, and take the same mail over the next. */
  refusalsPerConnectionMax: 3,
  connectionIdleMs: 10_000,
  mxHostsMax: 10,
  addressesPerHostMax: 4,
  addressesPerAttemptMax: 8,
  /** Hosts of one domain that may say 4yz of a message in one attempt. */
  putOffsPerAttemptMax: 3,

  // DNS
  dnsQueryMs: 4_000,
  dnsTries: 2,
  dnsServersMax: 5,
  /** How often the system's are looked at again. */
  dnsServersReadMs: 5_000,
  dnsQuestionsMax: 500,
  /** Of one workspace: the others always find room. */
  dnsQuestionsOfOwnerMax: 200,
  dnsAliasesMax: 8,
  dnsAnswerBytesMax: 16 * 1024,
  dnsAnswersKeptMax: 50_000,
  /** In memory, where an answer can take forty times what it takes on its way. */
  dnsAnswersKeptBytesMax: 64 * 1024 * 1024,
  dnsKeptMsMin: 1_000,
  dnsKeptMsMax: 3600_000,
  dnsNegativeKeptMsMax: 300_000,
  /** Found mail hosts are remembered as long as their records say, and at most this long: then equal ones are shuffled again. */
  mailHostsKeptMsMax: 60_000,
  /** And for so long those that were found while others could not be asked for. */
  mailHostsWantingMs: 30_000,
  /** Mail after mail to a relay shares what its addresses make, for so long at most. */
  relayTargetsKeptMs: 1_000,
  mailHostsKeptMax: 10_000,
  mailHostsKeptBytesMax: 32 * 1024 * 1024,

  // TLS policies
  dnssecTestMs: 3600_000,
  dnssecRetestMs: 300_000,
  /** After a test that met silence; and how long the last yes counts meanwhile. */
  dnssecSilentRetestMs: 5_000,
  dnssecVouchedMs: 86_400_000,
  stsFetchMs: 10_000,
  stsFileBytesMax: 64 * 1024,
  stsHostsMax: 100,
  stsMaxAgeSeconds: 31_557_600,
  stsRefreshMs: 24 * 3600_000,
  stsFailedMs: 300_000,
  /** How long a domain's policy is followed before its TXT record is looked at again. */
  stsCheckedMs: 60_000,
  stsPoliciesMax: 10_000,

  // SMTP client, RFC 5321 4.5.3.2
  smtpConnectMs: 30_000,
  smtpCommandMs: 300_000,
  smtpDataMs: 120_000,
  smtpBlockMs: 180_000,
  smtpEodMs: 600_000,
  /** How long the replies to commands that were pipelined behind a refused one are waited for, before the connection is given up. */
  smtpRestMs: 5_000,
  smtpQuitMs: 2_000,
  smtpBlockBytes: 64 * 1024,
  ehloTextCharactersMax: 16_384,
  dialogueLinesMax: 60,
  replyLineBytesMax: 2_048,
  replyLinesMax: 100,
  replyTextCharactersMax: 1_024,
  /** Replies that nobody has read yet; a pipeline has three. */
  repliesUnreadMax: 50,

  // Result journal and restore fence (delivery-semantics)
  /** A reply to a dot that the database has not heard after this long goes to the journal. */
  journalAfterMs: 1_000,
  journalBytesMax: 64 * 1024 * 1024,
  /** Processes that deliver from one data folder. */
  nodesPerFolderMax: 16,
  /** After a failover nobody waits for a node that was not seen for so long: what it armed last has expired. */
  nodeForgottenMs: 30 * 24 * 3600_000,
  /** How long the start of delivery waits for its first look at the database. */
  fenceLookMs: 2_000,
  drainWaitMs: 10 * 60_000,

  // Feedback by mail (decisions C)
  returnPathKeysKeptMs: 60_000,
  /** Keys of return paths whose tokens are believed: the newest. */
  returnPathKeysMax: 4,
  /** A report by mail: it may return the whole of ours, and the largest that we send has 35 MB. */
  feedbackBytesMax: 40 * 1024 * 1024,
  feedbackSessionsMax: 500,
  feedbackSessionsPerAddressMax: 20,
  /** Addresses that are none of ours, from one network within `feedbackUnknownMs`; then it has to wait. */
  feedbackUnknownMax: 50,
  feedbackUnknownMs: 60_000,
  feedbackUnknownNetworksMax: 10_000,
  /** A mail that has passed more hosts goes round in circles (RFC 5321 6.3). */
  feedbackReceivedFieldsMax: 30,

  // What a report by mail says (mail/report.ts)
  /** What a report says stands before the mail that it returns: beyond, strangers' lines would only hold up everybody. */
  reportBytesMax: 4 * 1024 * 1024,
  /** Of each text in a report; what stands behind is not looked at. */
  reportTextBytesMax: 256 * 1024,
  reportLinesMax: 5_000,
  reportLineCharactersMax: 1_000,
  reportTextCharactersMax: 2_000,
  reportPartsMax: 50,
  reportRecipientsMax: 100,

  // Reports that are recorded
  reportsPerStatementMax: 100,
  reportsWaitingMax: 2_000,
  reportsBytesMax: 4 * 1024 * 1024,
  /** Recorded of one mail. */
  reportsPerMailMax: 100,
  /** From there on reports about a message are not recorded. What was said in its sessions does not count. */
  reportsPerMessageMax: 500,
  reportDetailCharactersMax: 1_024,

  // A reporter’s signatures
  /** For the DKIM keys of a reporter, all together. */
  reporterLookupMs: 10_000,
  reporterSignaturesMax: 5,
  /** What a reporter's mail may be for its signatures to be looked at. */
  reporterHeaderBytesMax: 128 * 1024,
  reporterHeaderLinesMax: 1_000,
  reporterFieldBytesMax: 16 * 1024,
  reporterSignatureBytesMax: 4 * 1024,
  reporterLineBytesMax: 16 * 1024,
  /** Each signature may cover another part of the body, which is then hashed once for each: all together, no more than the largest mail once. */
  reporterHashedBytesMax: 40 * 1024 * 1024,

  // Feedback without its message, and what relays called our mail
  unmatchedFeedbackMax: 10_000,
  unmatchedFeedbackMs: 30 * 24 * 3600_000,
  unmatchedContentBytesMax: 64 * 1024,
  unmatchedPerMinuteMax: 600,
  /** What a feed says may come before the relay's reply is written down: it is looked at again this often, for so long. */
  unmatchedAgainMs: 15_000,
  unmatchedLateMs: 3600_000,
  relayedMs: 30 * 24 * 3600_000,
  prunedAtOnce: 1_000,

  // Provider feeds (feeds/feeds.ts)
  feedBytesMax: 2 * 1024 * 1024,
  /** Large posts to feeds that are read and held at the same time, in bytes; and of one caller's address. */
  feedsBytesMax: 24 * 1024 * 1024,
  feedsOfCallerBytesMax: 12 * 1024 * 1024,
  feedEventsMax: 1_000,
  /** Providers send again for a day; what is older than this is refused, and what is younger is remembered. */
  feedAgeMsMax: 26 * 3600_000,
  feedGenericAgeMsMax: 300_000,
  feedRememberedSeconds: 3 * 24 * 3600,
  feedFetchBytesMax: 64 * 1024,
  feedFetchMs: 5_000,
  feedFetchesPerMinuteMax: 30,
  feedCertificatesMax: 32,
  feedCertificateMs: 24 * 3600_000,

  // The sandbox and its simulator
  /** Messages whose deferrals the simulator remembers. */
  sandboxDeferredMax: 10_000,
  sandboxInboxMax: 10_000,
  /** Read from the database at once. */
  sandboxSliceBytes: 1024 * 1024,
  sandboxInboxBytesMax: 2 * 1024 * 1024 * 1024,
  /** One statement removes so many octets of it: seconds on a busy machine, of the half minute that it has. */
  sandboxPrunedBytesAtOnce: 256 * 1024 * 1024,
  /** One page of a search in the inbox looks at so many. */
  sandboxScannedMax: 5_000,
  /** Reports that the simulator still has to hand in. */
  simulatorReportsMax: 1_000,
  simulatorReportTries: 8,
  simulatorReportDelayMs: 250,

  // Webhooks (decisions G)
  /** After the first try, the second, and so on: eight tries in all. */
  webhookScheduleSeconds: [5, 300, 1_800, 7_200, 18_000, 36_000, 36_000],
  webhookJitter: 0.2,
  webhookFailingMs: 120 * 3600_000,
  /** How often a sender says that it is there. Where none has for so long, nobody has posted, and no endpoint was failing meanwhile. */
  webhookThereMs: 60_000,
  webhookAwayMs: 10 * 60_000,
  /** Owners are told of an endpoint that was disabled by itself: how often a node looks, and how long it has for one. */
  webhookNoticesLookMs: 5_000,
  webhookNoticeLeaseMs: 30_000,
  /** A notice that was refused is said again so much later, for so long. */
  webhookNoticeAgainMs: 10 * 60_000,
  webhookNoticeForMs: 3 * 24 * 3600_000,
  webhookNoticesPerRound: 20,
  /** Operators are told of an endpoint that fails for so long, and of one that was disabled by itself; and for so long after it began. */
  webhookFailingLongMs: 3600_000,
  webhookTroubleLatelyMs: 7 * 24 * 3600_000,
  webhookPreviousSecretMs: 24 * 3600_000,
  /** One try, from the look-up of the name to the end of the answer. */
  webhookPostMs: 15_000,
  /** From a lack of our own, by which no request was made, to the next one. */
  webhookLackMs: 1_000,
  webhookConnectMs: 10_000,
  /** Of that for one of several addresses; longer than a lost first packet takes to come again. */
  webhookAddressMs: 2_500,
  webhookQuietMs: 3_000,
  webhookUrlCharactersMax: 2_048,
  webhookAnswerBytesMax: 1024 * 1024,
  webhookAnswerHeadBytesMax: 16 * 1024,
  webhookInterimAnswersMax: 10,
  webhookExcerptBytesMax: 1024,
  webhooksInFlightMax: 2_000,
  webhookClaimMost: 500,
  webhookClaimLeast: 50,
  webhookLanesPerClaimMax: 200,
  /** How long an endpoint is remembered, and for an event that was claimed longer ago than the second, and waited behind another one of its message. */
  webhookEndpointKeptMs: 60_000,
  webhookClaimFreshMs: 1_000,
  /** Events of one endpoint in flight: from the first to the last, up with each success, halved with each failure; one behind a failure that took longer than this. */
  webhookShareFirst: 32,
  webhookShareLeast: 4,
  webhookShareMax: 100,
  webhookShareSlowMs: 1_000,
  /** An endpoint that says "too many requests", and not for how long, is left alone for so long; and whatever it says for no longer than the second. */
  webhookRestSeconds: 5,
  webhookRestMsMax: 300_000,
  webhookEndpointsKnownMax: 10_000,
  webhookPoolIdleMs: 60_000,
  /** An endpoint that has had nothing for so long is claimed for as a new one. */
  webhookShareRestMs: 60_000,
  /** Workspaces for which connections are kept: each takes 30 KB beside its connections. */
  webhookPoolsMax: 2_000,
  webhookKeepAliveMs: 4_000,
  webhookSpacingMs: 5,
  webhookResultsPerStatementMax: 500,
  /** Events that one step of a replay looks at, and those that it puts into the queue at most. */
  webhookReplayLook: 5_000,
  webhookReplaySlice: 1_000,
  webhookTestSpacingMs: 1_000,
  /** Events that one page of a search in the webhook log looks at; its cursor goes on from there. */
  webhookLogScannedMax: 2_000,
  eventsPage: 100,
  eventsAdoptedSlice: 10_000,
  /** Posts of all events of one message that its timeline shows; the log has every one. */
  timelinePostsMax: 200,

  // People
  passwordCharactersMin: 10,
  passwordCharactersMax: 200,
  /** Slow hashes at once, and those that may wait for one; more get 503. */
  passwordHashesMax: 2,
  passwordHashesWaitingMax: 64,
  /** Of one address, or of one person who is signed in. */
  passwordHashesOfAskerMax: 8,
  sessionIdleMs: 7 * 24 * 3600_000,
  sessionMs: 30 * 24 * 3600_000,
  sessionsPerUserMax: 50,
  invitationMs: 7 * 24 * 3600_000,
  invitationsPerWorkspaceMax: 200,
  /** Mails to addresses that members choose: the installation's sender must not become anybody's. */
  invitationsPerHourMax: 30,
  passwordResetMs: 3600_000,
  passwordResetsPerUserMax: 3,
  passwordResetsUnderWayMax: 100,
  /** Of one stranger's address, or person. */
  passwordResetsOfAskerMax: 10,
  recoveryCodes: 10,
  passkeyChallengeMs: 300_000,
  passkeysPerUserMax: 20,
  /** Wrong passwords of one account from devices that it never signed in on; half are forgotten every `guessForgottenMs`. */
  accountGuessesMax: 60,
  /** Wrong second factors behind a right password. There are only a million: this many, and then half as many an hour. */
  codeGuessesMax: 10,
  codeGuessForgottenMs: 3600_000,
  /** Of one account and hour, each with a row in the audit log; then each that makes them twice as many. */
  guessesToldMost: 10,
  loginsListedAtOnce: 1_000,

  // Management
  managementRequestBytesMax: 64 * 1024,
  suppressionRequestBytesMax: 16 * 1024 * 1024,
  nameCharactersMax: 200,
  pageDefault: 50,
  keysPerWorkspaceMax: 1_000,
  domainsPerWorkspaceMax: 1_000,
  mailboxesPerWorkspaceMax: 10_000,
  liveConnectionsMax: 500,
  liveConnectionsPerWorkspaceMax: 100,
  liveConnectionsPerUserMax: 10,
  liveHeartbeatMs: 20_000,

  // Suppressions
  /** What an import may make them; mail that is refused for good, complaints and single ones always have room. */
  suppressionsPerWorkspaceMax: 5_000_000,
  /** So long a count of them holds for those that are added one by one. */
  suppressionsCountedMs: 60_000,
  /** One page of a search among them, and one bite of what takes back a rule, look at so many. */
  suppressionsScannedMax: 10_000,
  suppressionImportBytesMax: 64 * 1024 * 1024,
  suppressionImportRows: 1_000,
  importMistakesShownMax: 20,
  importedRuleCharactersMax: 100,
  /** Of a suppression: a reply's text behind its code, which is the longest that is kept. */
  evidenceCharactersMax: 1_028,
  /** How long a file is read before others get their turn. */
  importTurnMs: 10,

  // Looking for messages, and sending them again
  messagesListedMax: 10_000,
  /** Messages that one page of a search without an index looks at; the cursor goes on from there. */
  messagesScannedMax: 10_000,
  /** Of their subjects and metadata: what a database unpacks and compares in a tenth of a second, or several where it is busy. */
  messagesScannedBytesMax: 5_000_000,
  /** Of what is looked for in messages: a reply of another server, as somebody copied it. */
  messageTextCharactersMax: 1_000,
  searchCharactersMax: 200,
  sendAgainGraceSeconds: 900,
  /** How long the content of a mail that is sent again may take on its way into the database. */
  stagingMs: 30_000,

  // Mail that is shown
  /** Of a kept mail, what is read to show it: its beginning has text and HTML. */
  previewBytesMax: 4 * 1024 * 1024,
  previewHtmlCharactersMax: 1024 * 1024,
  /** Of pictures inside a mail, each as often as its HTML shows it. */
  previewPicturesCharactersMax: 8 * 1024 * 1024,
  previewFilesMax: 100,
  /** Tags and texts between them, of HTML that is read for its text. */
  htmlPiecesMax: 100_000,
  /** Of texts that hold character references. */
  htmlCodedCharactersMax: 1024 * 1024,

  // Charts
  chartPointsMax: 800,
  foldCountsMs: 1_000,
  foldCountsRows: 20_000,
  /** Rows of the charts. */
  countsKeptDays: 400,

  // Domains: checks and DKIM keys (docs/domains.md)
  zoneServersAskedMax: 4,
  zoneQueryMs: 3_000,
  domainRecordsReadMax: 20,
  domainRecordShownCharactersMax: 300,
  /** Age of a domain that waits for its records, and how often it is looked at until then. */
  domainPendingSteps: [
    { untilMs: 3600_000, everyMs: 60_000 },
    { untilMs: 24 * 3600_000, everyMs: 10 * 60_000 },
    { untilMs: 7 * 24 * 3600_000, everyMs: 3600_000 },
    { untilMs: 30 * 24 * 3600_000, everyMs: 6 * 3600_000 },
  ],
  domainVerifiedMs: 6 * 3600_000,
  domainDegradedMs: 15 * 60_000,
  domainFailedMs: 24 * 3600_000,
  /** How long a broken domain still sends (decisions H). */
  domainDegradedMsMax: 72 * 3600_000,
  /** Checks in a row without an answer that count as a broken domain. */
  domainUnansweredMax: 3,
  /** A node that takes a domain to check has so long for it. */
  domainCheckMs: 5 * 60_000,
  domainChecksAtOnce: 4,
  domainChecksPerRound: 50,
  domainChecksOfWorkspacePerRound: 12,
  domainLookMs: 30_000,
  /** Behind a round that was full: the next one. */
  domainLookOnMs: 1_000,
  /** How long somebody waits while keys are made for others. */
  dkimKeyWaitMs: 10_000,
  /** How long the record of a DKIM key that was replaced must stay, for mail under way. */
  dkimRetiredMs: 7 * 24 * 3600_000,
  /** How long a node goes by the DKIM keys of a domain that it has read; of so many domains. */
  dkimKeysKeptMs: 60_000,
  dkimDomainsMax: 5_000,

  // The doctor
  doctorCheckMs: 20_000,
  doctorKeptMs: 10_000,
  doctorDnsMs: 3_000,
  doctorConnectMs: 8_000,
  /** Longer than a node needs that finds its delivery process silent. */
  doctorNodeMs: 4_000,
  doctorHostsTried: 3,
  /** Relays of workspaces that are visited, all at once, and workspaces whose routes are looked at for them. */
  doctorRelaysVisited: 50,
  doctorRoutesRead: 1_000,
  doctorClockMs: 2_000,
  doctorQueueLateSeconds: 900,
  /** Nothing that was deleted since can be cleaned up. */
  doctorTransactionSeconds: 3_600,
  /** So long nothing of ours waits for a lock in the ordinary course of things. */
  doctorLockMs: 5_000,
  /** Housekeeping makes partitions for two weeks ahead, every ten minutes. */
  doctorPartitionDays: 7,
  /** By which it sees whether the database's disk has room: about 6 MB. */
  doctorRoomRows: 400_000,
  doctorBackupSeconds: 2 * 86_400,
  doctorCertificateDays: 14,
  /** From then on ClamAV itself calls its signatures out of date. */
  doctorSignaturesDays: 7,
  /** The doctor warns of less room than this, and fails below the least; the rules in ops/alerts.yml go by the same. */
  diskFreeBytesMin: 500e6,
  diskFreeBytesLow: 2e9,
  diskFreeShareLow: 0.1,
  /** How long what was seen of the disks is told to monitors. */
  disksKeptMs: 10_000,
  doctorMemoryBytesLow: 900e6,
  /** What ClamAV takes with its signatures, twice while it loads new ones, beside a service and a database. */
  doctorClamdMemoryBytesLow: 3e9,
  /** The newest reports of a workspace, and of all together, that the doctor looks at; and providers that it names. */
  doctorReportsOfWorkspace: 500,
  doctorReportsRead: 20_000,
  doctorProvidersShown: 5,
  doctorWorkspacesShown: 5,
  /** So many refusals by policy, and this part of what a provider says, are worth a warning. */
  doctorPolicyLeast: 3,
  doctorPolicyShare: 0.05,

  // Metrics and pages about the queue
  queueFactsRowsMax: 1_000_000,
  /** What operators see of the queue. */
  queueRowsReadMax: 100_000,
  queueLanesShown: 200,
  /** Of each that is shown, to tell why its mail waits: rows of the queue, and last attempts. */
  queueLaneRowsRead: 50,
  queueLaneAttemptsRead: 5,
  /** Replication slots that the metrics name, those for which most is kept. */
  slotsShown: 50,
  /** Numbers out of the database are this old at most. */
  metricsKeptMs: 15_000,
  /** A scrape waits for them so long: whatever the database does, the other numbers are told. */
  metricsWaitMs: 500,

  // Connections to the database
  databaseAnswerMs: 5_000,
  databaseWaitMs: 4_000,
  databasePatientWaitMs: 20_000,
  /** Without an answer for so long the server is asked, over another line, whether it is still at work; where it is not, an answer has so long to come. */
  silentLineMs: 4_000,
  silentLineAnswerMs: 1_000,
  /** How often a session that listens asks whether the server is still there, and how long it waits for answers. */
  listening: { pulseMs: 10_000, answerMs: 5_000 },
  /** How long a connection waits for PostgreSQL to close it too. */
  databaseGoodbyeMs: 1_000,

  // What the database’s server is like
  /** What asks for /readyz seldom waits longer than a few seconds, and should be told why not. */
  readyMs: 1_500,
  /** For so long a commit may wait for a synchronous standby before a node says that it can do no work. */
  commitsWaitMs: 5_000,
  /** Behind that it may be over, and what is to be written is tried over a new line. */
  commitsLookMs: 250,
  /** Of about 2,147 million; by itself PostgreSQL lets it come to 200. */
  transactionIdsMost: 1_500_000_000,
  /** Since a snapshot that somebody elsewhere holds: a busy installation's in an hour. */
  snapshotTransactionsMost: 1_000_000,
  /** Of the write-ahead log for one replication slot. By itself, without any, PostgreSQL has about 1 GB of it on the disk. */
  logKeptBytesMost: 4_000_000_000,

  // Housekeeping
  housekeepingMs: 600_000,
  /** After such a gap between two rounds nothing is deleted for its age, until the clock has gone on for so long: it may have been set wrongly. */
  clockGapMs: 7 * 24 * 3600_000,
  clockSteadyMs: 24 * 3600_000,
  /** Rows that housekeeping deletes in one statement. */
  housekeepingRows: 1_000,
  /** Of blobs, and of whole mails, each of which may be as large as a mail may be: what it deletes must come to its end within a statement's time on a slow disk. */
  blobsAtOnce: 20,
  /** Pages that it reads in one, of a table without an index for it: about so many rows. */
  housekeepingPages: 16,
  /** Between the tries to take off a partition that somebody was using. */
  housekeepingBusyMs: 2_000,
  housekeepingBusyTries: 30,

  // Removed workspaces
  /** A removed workspace goes in bites of so many rows, of `blobsAtOnce`, and of so many people. */
  removalRows: 1_000,
  removalPeople: 100,
  /** What a round of housekeeping takes of one, where the command that began it has died. */
  removalRowsOfRound: 2_000_000,
  /** How often a command that takes long says how far it is. */
  progressMs: 5_000,
  /** How often it begins again where somebody wrote a row of it meanwhile. */
  removalRounds: 20,
  /** How long rows are looked for that come behind it, from what was under way elsewhere. */
  removedSweptMs: 48 * 3600_000,
  /** How long reports about its mail are known for such, and so many of the newest. */
  removedKnownMs: 30 * 24 * 3600_000,
  removedKnownMax: 1_000,
  /** Until where messages are counted for whoever is asked whether they may go. */
  removalMessagesCounted: 100_000,

  // Migrations, and restoring a backup
  /** So long a migration stands in line for a table's lock, and everybody else behind it; then it begins again, so many times. */
  migrationLockMs: 100,
  migrationPauseMs: 2_000,
  migrationTriesMax: 30,
  restoreRowsPerPage: 500,
  restorePageBytes: 4 * 1024 * 1024,

  // The embedded PostgreSQL
  postgresStartMs: 15 * 60_000,
  postgresStopMs: 20_000,
  postgresKillMs: 5_000,
  /** How long a start waits for the process that holds the data folder. */
  postgresHoldMs: 10 * 60_000,
  postgresLogBytesMax: 4 * 1024 * 1024,

  // The process: its stop, its log, and the dashboard that its first start builds
  /** How long a stop waits for replies to dots. */
  shutdownMs: 25_000,
  /** When a stop waits for the database no longer: what the last replies brought has had its time. */
  stopMs: 28_000,
  /** What is kept of the log while nobody reads it, and how long the end of the process waits for a reader. */
  logHeldBytesMax: 1024 * 1024,
  logGoodbyeMs: 1_000,
  /** So many faults with the same words are written in a minute, and so many kinds of words remembered. */
  faultsAlikePerMinuteMax: 3,
  faultsAlikeMax: 1_000,
  /** It takes seconds, and where the machine is slow a minute. */
  dashboardBuildMs: 5 * 60_000,
} as const
