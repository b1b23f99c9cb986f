// The one signature that the built-in check knows: the EICAR test file, which every engine recognises and which does no harm.

export const eicarName = 'Eicar-Test-Signature'
/** In two halves, so that this file is not one. */
const eicar = Buffer.from(
  ['X5O!P%@AP[4\\PZX54(P^)7CC)7}$EICAR-STANDARD-', 'ANTIVIRUS-TEST-FILE!$H+H*'].join(''),
  'latin1',
)

export const holdsEicar = (bytes: Buffer): boolean => bytes.includes(eicar)
