// The receiver of the webhook rows: nginx, which takes every POST and keeps none, as smtp-sink does for mail. It shares the cores with what is measured, and a
// receiver of Node took about 40 us of a core for an event: a fifth of what the webhooks of a mail cost the whole machine.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { freePorts } from '../../src/base/free-ports.ts'
import { findProgram, folderIn, start } from '../processes.ts'
import type { Running } from '../processes.ts'
import { listens } from './sink.ts'

export interface WebReceiver extends Running {
  readonly port: number
  /** Requests answered since its start, these questions among them. */
  requests(): Promise<number>
}

export async function startWebReceiver(temporary: string): Promise<WebReceiver> {
  const command = findProgram('nginx')
  if (command === undefined) throw new Error('nginx is not installed (bench/setup.sh)')
  const [port = 0] = await freePorts(1)
  const folder = folderIn(temporary, 'nginx')
  const file = join(folder, 'nginx.conf')
  writeFileSync(file, configuration(port, folder))
  const nginx = start({ name: 'nginx', command, args: ['-c', file, '-e', 'stderr'], folder })
  await listens(port, 5_000)
  const requests = async (): Promise<number> => {
    const words = await (await fetch(`http://127.0.0.1:${port}/requests`)).text()
    // Of the line below "server accepts handled requests".
    const [, count] = /^ \d+ \d+ (\d+) *$/m.exec(words) ?? []
    if (count === undefined) throw new Error(`nginx does not tell how many requests it had: ${words}`)
    return Number(count)
  }
  return { ...nginx, port, requests }
}

/** One process, which writes nothing but its errors, and folders of its own: Debian's want root. */
function configuration(port: number, folder: string): string {
  const bodies = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
  return `daemon off;
master_process off;
pid ${folder}/nginx.pid;
events { worker_connections 2048; }
http {
  access_log off;
  keepalive_requests 1000000000;
  keepalive_timeout 60s;
  ${bodies.map((name) => `${name}_temp_path ${folder}/${name};`).join('\n  ')}
  server {
    listen 127.0.0.1:${port};
    location / { return 200; }
    location = /requests { stub_status; }
  }
}
`
}
