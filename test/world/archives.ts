// Archives for the scan's tests: honest ones, bombs, and ones that lie.
import { crc32, deflateRawSync } from 'node:zlib'

export interface ZipFile {
  readonly name: string
  readonly content: Buffer
  readonly stored?: boolean
  readonly encrypted?: boolean
}

/** A ZIP archive. `lie` may change the end record, or the list, before it is put together. */
export function zipOf(
  files: readonly ZipFile[],
  lie: (parts: { list: Buffer[]; end: Buffer }) => void = () => undefined,
): Buffer {
  const parts: Buffer[] = []
  const list: Buffer[] = []
  const packed = new Map<Buffer, Buffer>()
  let offset = 0
  for (const { name, content, stored = false, encrypted = false } of files) {
    const bytes = stored ? content : (packed.get(content) ?? deflateRawSync(content, { level: 9 }))
    packed.set(content, bytes)
    const nameBytes = Buffer.from(name)
    const facts = Buffer.alloc(26)
    facts.writeUInt16LE(20, 0) // version that is needed
    facts.writeUInt16LE(encrypted ? 1 : 0, 2)
    facts.writeUInt16LE(stored ? 0 : 8, 4)
    facts.writeUInt32LE(crc32(content), 10)
    facts.writeUInt32LE(bytes.length, 14)
    facts.writeUInt32LE(content.length, 18)
    facts.writeUInt16LE(nameBytes.length, 22)
    parts.push(Buffer.from('PK\u0003\u0004', 'latin1'), facts, nameBytes, bytes)
    const rest = Buffer.alloc(14)
    rest.writeUInt32LE(offset, 10)
    list.push(Buffer.concat([Buffer.from('PK\u0001\u0002\u0014\0', 'latin1'), facts, rest, nameBytes]))
    offset += 4 + facts.length + nameBytes.length + bytes.length
  }
  const end = Buffer.alloc(22)
  end.write('PK\u0005\u0006', 'latin1')
  end.writeUInt16LE(files.length & 0xffff, 8)
  end.writeUInt16LE(files.length & 0xffff, 10)
  end.writeUInt32LE(
    list.reduce((sum, entry) => sum + entry.length, 0),
    12,
  )
  end.writeUInt32LE(offset, 16)
  lie({ list, end })
  return Buffer.concat([...parts, ...list, end])
}

export const zipped = (content: Buffer, name = 'inside.bin'): Buffer => zipOf([{ name, content }])

/** Archives in an archive, `width` of each, `depth` times, as 42.zip; at the bottom `content`. */
export function nestedZip(content: Buffer, depth: number, width = 1): Buffer {
  let archive = content
  for (let level = 0; level < depth; level++) {
    const inner = archive
    archive = zipOf(Array.from({ length: width }, (_, n) => ({ name: `${level}-${n}.zip`, content: inner })))
  }
  return archive
}

/** An archive that lists two files which share their bytes. */
export function overlappingZip(): Buffer {
  const content = Buffer.alloc(1_000, 'a')
  return zipOf(
    [
      { name: 'a', content },
      { name: 'b', content },
    ],
    ({ list }) => list[1]?.writeUInt32LE(0, 42),
  )
}

/** A ustar archive. */
export function tarOf(name: string, content: Buffer): Buffer {
  const header = Buffer.alloc(512)
  header.write(name, 0)
  header.write('0000644\0', 100)
  header.write(`${content.length.toString(8).padStart(11, '0')}\0`, 124)
  header.write('        ', 148)
  header.write('0ustar\0', 156)
  const sum = header.reduce((all, byte) => all + byte, 0)
  header.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148)
  return Buffer.concat([header, content, Buffer.alloc(512 - (content.length % 512)), Buffer.alloc(1024)])
}
