// Makes a self-signed certificate for localhost for one test run.
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'

/** A certificate that is its own authority. */
export interface Certificate {
  /** Paths of PEM files. */
  cert: string
  key: string
  /** The certificate as text, to be trusted. */
  ca: string
  /** The texts of both files. */
  pem: { cert: string; key: string }
}

/**
 * Makes a P-256 certificate for localhost and 127.0.0.1, or for another name. Its files are removed when the test is
 * over. It needs the openssl command.
 */
export function makeCertificate(t: Pick<Test, 'teardown'>, name = 'localhost'): Certificate {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-certificate-'))
  t.teardown(() => rmSync(folder, { recursive: true }))
  const cert = join(folder, 'cert.pem')
  const key = join(folder, 'key.pem')
  const options = 'req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -noenc -days 2'
  const names = name === 'localhost' ? 'DNS:localhost,IP:127.0.0.1' : `DNS:${name}`
  execFileSync(
    'openssl',
    [...options.split(' '), '-subj', `/CN=${name}`, '-addext', `subjectAltName=${names}`, '-keyout', key, '-out', cert],
    {
      stdio: 'ignore'
    }
  )
  const ca = readFileSync(cert, 'utf8')
  return { cert, key, ca, pem: { cert: ca, key: readFileSync(key, 'utf8') } }
}
