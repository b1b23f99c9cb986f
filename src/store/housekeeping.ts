// What must happen now and then, on any node: partitions ahead, orphans swept, the sandbox bounded. Every statement takes small bites and is safe
// to run on several nodes at once.
import { sweepStagedBlobs } from './blobs.ts'
import { sql, type Db } from './database.ts'
import { pruneSandbox } from './sandbox.ts'

const partitions = sql(
  'partitions-ahead',
  `select ensure_partitions(app_now() - interval '1 day', app_now() + interval '14 days')`,
)

export async function keepHouse(db: Db): Promise<void> {
  await db.rows(partitions)
  while ((await sweepStagedBlobs(db)) === 100);
  await pruneSandbox(db)
}
