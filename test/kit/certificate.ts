// A self-signed certificate for localhost, made for one test run.
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'

/** PEM files and the certificate's text, which is its own authority. */
export interface Certificate {
  cert: string
  key: string
  ca: string
}

/** Makes a P-256 certificate for localhost and 127.0.0.1, gone when the test is over; needs the openssl command. */
export function makeCertificate(t: Test): Certificate {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-certificate-'))
  t.teardown(() => rmSync(folder, { recursive: true }))
  const cert = join(folder, 'cert.pem')
  const key = join(folder, 'key.pem')
  const options = 'req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -noenc -days 2 -subj /CN=localhost'
  execFileSync('openssl', [...options.split(' '), '-addext', 'subjectAltName=DNS:localhost,IP:127.0.0.1', '-keyout', key, '-out', cert], {
    stdio: 'ignore'
  })
  return { cert, key, ca: readFileSync(cert, 'utf8') }
}
