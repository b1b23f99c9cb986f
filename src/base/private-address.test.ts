import { expect, test } from 'vitest'
import { isLoopback, isPrivateAddress } from './private-address.ts'

test.each([
  '0.0.0.0',
  '0.1.2.3',
  '10.0.0.1',
  '100.64.0.1',
  '100.127.255.255',
  '127.0.0.1',
  '127.1.2.3',
  '100.100.100.200', // Alibaba Cloud
  '168.63.129.16', // Azure, on every machine
  '169.254.169.254', // most others
  '172.16.0.1',
  '172.31.255.255',
  '192.0.0.1',
  '192.0.0.192', // Oracle Cloud
  '192.0.2.1',
  '192.168.1.1',
  '198.18.0.1',
  '198.19.255.255',
  '198.51.100.1',
  '203.0.113.1',
  '224.0.0.1',
  '240.0.0.1',
  '255.255.255.255',
  '::',
  '::1',
  '::ffff:127.0.0.1',
  '::ffff:8.8.8.8',
  '::ffff:a00:1',
  '::8.8.8.8',
  '64:ff9b::10.0.0.1',
  '64:ff9b::168.63.129.16',
  '64:ff9b::7f00:1',
  '64:ff9b::',
  '64:ff9b:1::8.8.8.8',
  '2002:0a00:0001::1',
  '2002:808:808::1',
  '2001::1',
  '2001:db8::1',
  '3fff::1',
  '100::1',
  'fc00::1',
  'fd00:ec2::254', // AWS
  'fd20:ce::254', // Google Cloud
  'fe80::1',
  'fe80::1%eth0',
  'fec0::1',
  'ff02::1',
  '4000::1',
  'localhost',
  '',
  '1.2.3',
  '0x7f.1',
])('%s is not public', (address) => {
  expect(isPrivateAddress(address)).toBe(true)
})

test.each([
  '1.1.1.1',
  '8.8.8.8',
  '100.63.255.255',
  '168.63.129.15',
  '168.63.129.17',
  '100.128.0.1',
  '172.15.0.1',
  '172.32.0.1',
  '192.167.1.1',
  '198.20.0.1',
  '223.255.255.1',
  '2001:4860:4860::8888',
  '2606:4700::1111',
  '2a00:1450::1a',
  '64:ff9b::8.8.8.8',
  '64:FF9B:0:0:0:0:808:808',
])('%s is public', (address) => {
  expect(isPrivateAddress(address)).toBe(false)
})

test('loopback, in every spelling', () => {
  for (const address of ['127.0.0.1', '127.9.9.9', '::1', '0:0:0:0:0:0:0:1']) expect(isLoopback(address)).toBe(true)
  for (const address of ['10.0.0.1', '::2', 'localhost', '128.0.0.1']) expect(isLoopback(address)).toBe(false)
})
