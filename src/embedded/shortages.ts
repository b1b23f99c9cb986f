// What the system may have too little of for PostgreSQL, or not at all.

/** What there is too little of, and the way out; undefined where its words (PostgreSQL's, or an error's of ours) are of something else. */
export function tooLittle(words: string): string | undefined {
  return shortages.find(([said]) => said.test(words))?.[1]
}

const shortages: readonly (readonly [RegExp, string])[] = [
  [
    /insufficient file descriptors|Too many open files|\bE[MN]FILE\b/,
    'too few files may be open at once; raise the limit to 1024 or more (ulimit -n, LimitNOFILE= of systemd, --ulimit nofile= of a container)',
  ],
  [
    /could not fork|\bEAGAIN\b/,
    'too few processes may run at once; raise the limit to 200 or more (ulimit -u, TasksMax= of systemd, --pids-limit of a container)',
  ],
  [
    /Cannot allocate memory|could not map anonymous shared memory|\bENOMEM\b/,
    'there is too little memory; give it 1 GB or more (docs/production.md)',
  ],
  [
    /has invalid permissions|could not change permissions of/,
    'the file system there keeps no permissions, as that of a memory stick, of a share, or of Windows in WSL (/mnt) does not; set POSTHORN_DATA_DIR to a folder on a disk of this system',
  ],
]
