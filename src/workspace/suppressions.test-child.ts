// A thread with a small heap for the test of imports: says what the import of its file was answered. No database is asked for a wrong one.
import { parentPort, workerData } from 'node:worker_threads'
import type { WorkspaceId } from '../domain/message.ts'
import type { Db } from '../store/database.ts'
import { importSuppressions } from './suppression-import.ts'

importSuppressions({} as Db, '' as WorkspaceId, workerData as string, '').catch(({ message }: Error) =>
  parentPort?.postMessage(message),
)
